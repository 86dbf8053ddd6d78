/* The few members of the kernel's own structures that are read. Where each lies is looked up in
 * the running kernel's type information when a program is loaded, so these need no order.
 */
#ifndef FLYBALL_KERNEL_TYPES_H
#define FLYBALL_KERNEL_TYPES_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	__u64 id;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct task_struct {
	int pid;
	int tgid;
	int exit_code;
	char comm[16];
	struct task_struct *real_parent;
	struct css_set *cgroups;
};

struct linux_binprm {
	const char *filename;
};

/* Of x86-64 */
struct pt_regs {
	unsigned long di;
	unsigned long si;
	unsigned long dx;
};

#pragma clang attribute pop

#endif
