/* Counts and tells which processes of a domain begin, become a program, and end. */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "domains.h"
#include "kernel_types.h"

char LICENSE[] SEC("license") = "GPL";

SEC("tp_btf/sched_process_exec")
int BPF_PROG(count_exec, struct task_struct *task, int old_pid, struct linux_binprm *program)
{
	struct config *settings = the_config();
	struct domain *domain = 0;
	struct record *record;
	__u64 id = 0;

	if (!settings)
		return 0;
	FOR_EACH_DOMAIN_OF_CURRENT(settings, id, domain, add(&domain->execs, 1));
	if (!domain)
		return 0;
	record = a_record(domain, id, KIND_EXEC);
	if (!record)
		return 0;
	record->pid = task->tgid;
	record->parent = task->real_parent->tgid;
	bpf_get_current_comm(record->comm, sizeof(record->comm));
	bpf_probe_read_kernel_str(record->text, sizeof(record->text), program->filename);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(count_fork, struct task_struct *parent, struct task_struct *child)
{
	struct config *settings = the_config();
	struct domain *domain = 0;
	struct record *record;
	__u64 id = 0;

	if (!settings || child->pid != child->tgid) /* a thread */
		return 0;
	FOR_EACH_DOMAIN_OF_CURRENT(settings, id, domain, add(&domain->forks, 1));
	if (!domain)
		return 0;
	record = a_record(domain, id, KIND_FORK);
	if (!record)
		return 0;
	record->pid = parent->tgid;
	record->parent = child->tgid;
	bpf_get_current_comm(record->comm, sizeof(record->comm));
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(count_exit, struct task_struct *task)
{
	struct config *settings = the_config();
	struct domain *domain = 0;
	struct record *record;
	__u64 id = 0;

	if (!settings || task->pid != task->tgid)
		return 0;
	FOR_EACH_DOMAIN_OF_CURRENT(settings, id, domain, add(&domain->exits, 1));
	if (!domain)
		return 0;
	record = a_record(domain, id, KIND_EXIT);
	if (!record)
		return 0;
	record->pid = task->tgid;
	record->parent = task->exit_code;
	bpf_get_current_comm(record->comm, sizeof(record->comm));
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}
