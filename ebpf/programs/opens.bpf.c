/* Counts and tells which files a domain asks to open for writing. On x86-64.
 *
 * Runs at every system call of the machine: what is no open leaves after one comparison.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "domains.h"
#include "kernel_types.h"

#define NR_OPEN 2
#define NR_CREAT 85
#define NR_OPENAT 257
#define NR_OPENAT2 437
#define WRITES (01 | 02 | 0100 | 01000) /* O_WRONLY, O_RDWR, O_CREAT, O_TRUNC */

char LICENSE[] SEC("license") = "GPL";

static __always_inline int told(const char *path)
{
	struct config *settings = the_config();
	struct domain *domain = 0;
	struct record *record;
	__u64 id = 0;

	if (!settings)
		return 0;
	FOR_EACH_DOMAIN_OF_CURRENT(settings, id, domain, (void)0);
	/* Until there is a program in it, what is opened is opened to enter the domain. */
	if (!domain || !domain->execs)
		return 0;
	FOR_EACH_DOMAIN_OF_CURRENT(settings, id, domain, add(&domain->opens, 1));
	if (!domain)
		return 0;
	record = a_record(domain, id, KIND_OPEN);
	if (!record)
		return 0;
	record->pid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(record->comm, sizeof(record->comm));
	bpf_probe_read_user_str(record->text, sizeof(record->text), path);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(count_open, struct pt_regs *registers, long number)
{
	__u64 flags = 0;

	switch (number) {
	case NR_OPENAT:
		return registers->dx & WRITES ? told((const char *)registers->si) : 0;
	case NR_OPEN:
		return registers->si & WRITES ? told((const char *)registers->di) : 0;
	case NR_CREAT:
		return told((const char *)registers->di);
	case NR_OPENAT2:
		bpf_probe_read_user(&flags, sizeof(flags), (const void *)registers->dx);
		return flags & WRITES ? told((const char *)registers->si) : 0;
	}
	return 0;
}
