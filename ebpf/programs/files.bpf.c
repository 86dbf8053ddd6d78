// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * What Landlock leaves open of the paths that a rule withholds: the names in a hidden directory,
 * what is known of files there, and code that is mapped where nothing may be started.
 *
 * Needs the kernel's type information and its hooks for programs (BPF LSM). Landlock holds the
 * rest, so a path that is too long to be looked at here is left to it.
 */
#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define ALLOW 1
#define REFUSE 0

#define READ 1
#define EXECUTE 2

#define PROT_EXEC 4
#define PATHS_MAX 16384
#define DENIED_MAX 4096
#define DOMAINS_MAX 4096
#define PATH_BYTES 240
/* The bits of the domain, which come before the path. */
#define BITS_BEFORE 64

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct path {
	void *mnt;
};

struct file {
	struct path f_path;
};
#pragma clang attribute pop

struct withheld {
	__u32 bits;
	__u64 domain;
	char path[PATH_BYTES];
} __attribute__((packed));

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PATHS_MAX);
	__type(key, struct withheld);
	__type(value, __u8);
} paths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, DOMAINS_MAX);
	__type(key, __u64);
	__type(value, __u64);
} file_denials SEC(".maps");

/* `path` is an argument of the hook: only such a one may be asked for its text. */
#define DECIDE(at, wanted)                                                                     \
	({                                                                                     \
		struct withheld key = {.domain = bpf_get_current_cgroup_id()};                 \
		int answer = ALLOW;                                                            \
		long length = bpf_d_path(at, key.path, sizeof(key.path) - 1);                  \
		if (length > 0 && length < PATH_BYTES) {                                       \
			__u8 *found;                                                           \
			/* Every path ends in a slash, so that /a is no part of /ab. */        \
			key.path[length - 1] = '/';                       \
			key.bits = BITS_BEFORE + PATH_BYTES * 8;                               \
			found = bpf_map_lookup_elem(&paths, &key);                             \
			if (found && (*found & (wanted))) {                                    \
				__u64 *total = bpf_map_lookup_elem(&file_denials, &key.domain);\
				if (total)                                                     \
					__sync_fetch_and_add(total, 1);                        \
				answer = REFUSE;                                               \
			}                                                                      \
		}                                                                              \
		answer;                                                                        \
	})

SEC("lsm_cgroup/file_open")
int BPF_PROG(withhold_open, struct file *file)
{
	return DECIDE(&file->f_path, READ);
}

SEC("lsm_cgroup/inode_getattr")
int BPF_PROG(withhold_attributes, struct path *path)
{
	return DECIDE(path, READ);
}

SEC("lsm_cgroup/mmap_file")
int BPF_PROG(withhold_code, struct file *file, unsigned long asked, unsigned long protection)
{
	if (!file || !(protection & PROT_EXEC))
		return ALLOW;
	return DECIDE(&file->f_path, EXECUTE);
}

char LICENSE[] SEC("license") = "GPL";
