/* Counts and tells which processes of a domain the kernel chooses to kill for want of memory.
 *
 * Whoever runs at that moment may be of another domain, so the victim's own group is read. Kernels
 * that name the victim by a number instead refuse to load this.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "domains.h"
#include "kernel_types.h"

char LICENSE[] SEC("license") = "GPL";

SEC("tp_btf/mark_victim")
int BPF_PROG(count_victim, struct task_struct *task)
{
	struct cgroup_subsys_state *place = &task->cgroups->dfl_cgrp->self;
	struct domain *deepest = 0;
	struct record *record;
	__u64 deepest_id = 0;

#pragma unroll
	for (int step = 0; step < LEVELS; step++) {
		__u64 id = place->cgroup->kn->id;
		struct domain *domain = bpf_map_lookup_elem(&domains, &id);

		if (domain) {
			add(&domain->victims, 1);
			if (!deepest) {
				deepest = domain;
				deepest_id = id;
			}
		}
		place = place->parent;
		if (!place)
			break;
	}
	if (!deepest)
		return 0;
	record = a_record(deepest, deepest_id, KIND_VICTIM);
	if (!record)
		return 0;
	record->pid = task->tgid;
	bpf_probe_read_kernel_str(record->comm, sizeof(record->comm), task->comm);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}
