/* What all programs share: the domains, where to look for them, and what is told of them.
 *
 * A domain is a control group of the v2 hierarchy, found by its id. Whoever makes domains puts
 * each into the map before there is a process in it, so what has no entry is not ours and is left
 * alone. ebpf/probe/layout.py has the same structures; a test compares their sizes.
 */
#ifndef FLYBALL_DOMAINS_H
#define FLYBALL_DOMAINS_H

#define LEVELS 4 /* how many generations of domains: tenant, session, call, and one to spare */
#define LEVEL_NOT_FOUND 64
#define COMM_BYTES 16
#define TEXT_BYTES 96
#define ADDRESS_BYTES 16

#define FAMILY_INET 2
#define FAMILY_INET6 10

enum kind {
	KIND_CONNECT = 1,
	KIND_SEND = 2, /* the first datagram to somebody */
	KIND_EXEC = 3,
	KIND_FORK = 4,
	KIND_EXIT = 5,
	KIND_OPEN = 6,
	KIND_VICTIM = 7,
};

struct peer {
	__u8 address[ADDRESS_BYTES];
	__u16 port; /* in the order of the host */
	__u8 family;
	__u8 protocol;
};

struct config {
	__u32 first_level;   /* the level of the topmost domains, as the kernel counts levels */
	__u32 free_loopback; /* what goes to the loopback device is counted, but is no egress */
};

struct domain {
	__u64 egress_limit;
	__u64 egress_bytes;
	__u64 egress_packets;
	__u64 ingress_bytes;
	__u64 ingress_packets;
	__u64 loopback_bytes; /* how much of what was sent went to the loopback device */
	__u64 refused_bytes;
	__u64 refused_packets;
	__u64 connections;
	__u64 execs;
	__u64 forks;
	__u64 exits;
	__u64 opens;
	__u64 victims;
	__u64 told_max; /* how many records it may cause, so that none can flood the ring */
	__u64 told;
	__u64 untold; /* records beyond that */
	__u64 lost;   /* records that the ring had no room for */
	struct peer refused; /* to whom the first packet was that was refused */
	__u16 over;	     /* 0: no. 1: its own limit. 2: the limit of one above it */
	__u16 is_shut;	     /* it has ended: nothing of it is let out any more */
};

struct record {
	__u64 domain;
	__u32 kind;
	__u32 pid;
	__u32 parent; /* of a fork: the new process. Of an exit: the status */
	struct peer peer;
	char comm[COMM_BYTES];
	char text[TEXT_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct config);
} config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct domain);
} domains SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} records SEC(".maps");

static __always_inline struct config *the_config(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&config, &only);
}

static __always_inline void add(__u64 *figure, __u64 amount)
{
	__sync_fetch_and_add(figure, amount);
}

/* Return a record to be filled in and submitted; null where none may be, which is counted. */
static __always_inline struct record *a_record(struct domain *domain, __u64 id, __u32 kind)
{
	struct record *record;

	/* Two processors may pass together: a few records more do no harm. */
	if (domain->told >= domain->told_max) {
		add(&domain->untold, 1);
		return 0;
	}
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record) {
		add(&domain->lost, 1);
		return 0;
	}
	add(&domain->told, 1);
	__builtin_memset(record, 0, sizeof(*record));
	record->domain = id;
	record->kind = kind;
	return record;
}

/* The deepest domain that the running process is in, and what to do to each above it. */
#define FOR_EACH_DOMAIN_OF_CURRENT(settings, id, domain, act)                                  \
	_Pragma("unroll") for (int step = 0; step < LEVELS; step++)                            \
	{                                                                                      \
		__u64 at = 0;                                                                  \
		struct domain *found;                                                          \
		at = bpf_get_current_ancestor_cgroup_id(settings->first_level + step);         \
		if (!at)                                                                       \
			break;                                                                 \
		found = bpf_map_lookup_elem(&domains, &at);                                    \
		if (!found)                                                                    \
			continue;                                                              \
		domain = found;                                                                \
		id = at;                                                                       \
		act;                                                                           \
	}

#endif
