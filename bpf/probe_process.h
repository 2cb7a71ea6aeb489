/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Processes and threads: who is tracked, and what their addresses mean. */
#ifndef MEMTRACK_PROBE_PROCESS_H
#define MEMTRACK_PROBE_PROCESS_H

/*
 * Room above a thread's initial stack pointer: what the C library has put
 * there for the thread's first frame to find.
 */
#define STACK_TOP_ROOM 64

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 parent_tgid = parent->tgid;
	__u32 child_tgid = child->tgid;
	__u32 child_tid = child->pid;

	if (!recording)
		return 0;
	struct process *process = bpf_map_lookup_elem(&processes, &parent_tgid);

	if (!process)
		return 0;
	struct pt_regs *parent_regs = (struct pt_regs *)bpf_task_pt_regs(parent);
	struct pt_regs *child_regs = (struct pt_regs *)bpf_task_pt_regs(child);
	__u64 child_sp = REGS_SP(child_regs);
	struct thread fresh = { .stack_top = child_sp + STACK_TOP_ROOM };

	if (child_sp == REGS_SP(parent_regs)) {
		/* The child goes on on (a copy of) its parent's stack. */
		__u32 parent_tid = parent->pid;
		struct thread *thread = bpf_map_lookup_elem(&threads, &parent_tid);

		fresh.stack_top = thread ? thread->stack_top : 0;
	}
	if (bpf_map_update_elem(&threads, &child_tid, &fresh, BPF_ANY))
		count(COUNT_CALL_MAP_FULL);
	if (child_tgid == parent_tgid)
		return 0;

	struct process copy = *process;
	struct image *image = bpf_map_lookup_elem(&images, &copy.image);

	if (image)
		__sync_fetch_and_add(&image->references, 1);
	if (bpf_map_update_elem(&processes, &child_tgid, &copy, BPF_ANY)) {
		count(COUNT_PROCESS_MAP_FULL);
		release_image(copy.image);
		return 0;
	}
	__u8 shares = child->mm == parent->mm ? EVENT_SHARES_MEMORY : 0;

	emit_plain(EVENT_FORK, shares, (__u64)parent_tgid << 32 | (__u32)parent->pid, child_tgid);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_tid, struct linux_binprm *bprm)
{
	__u32 tgid = task->tgid;
	__u32 tid = task->pid;
	__u32 old = old_tid;

	if (!recording)
		return 0;
	struct process *process = bpf_map_lookup_elem(&processes, &tgid);

	if (!process)
		return 0;
	struct mm_struct *mm = task->mm;

	release_image(process->image);
	process->image = new_image();
	process->space = new_id();
	process->active = 1;
	if (old != tid)
		bpf_map_delete_elem(&threads, &old);
	/* The word at start_stack is argc; the first frame lies below it. */
	struct thread fresh = { .stack_top = mm->start_stack + 8 };

	if (bpf_map_update_elem(&threads, &tid, &fresh, BPF_ANY))
		count(COUNT_CALL_MAP_FULL);
	emit_plain(EVENT_EXEC, 0, (__u64)tgid << 32 | tid, 0);

	note_exec_files(task, mm, process);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	__u32 tgid = task->tgid;
	__u32 tid = task->pid;
	struct process *process = bpf_map_lookup_elem(&processes, &tgid);

	if (!process)
		return 0;
	__u64 key = (__u64)tgid << 32 | tid;

	bpf_map_delete_elem(&threads, &tid);
	bpf_map_delete_elem(&attach_stopped, &key);
	if (task->signal->live.counter > 0)
		return 0;
	/* Two last threads can both come here: whoever removes the entry reports. */
	__u64 image = process->image;

	if (bpf_map_delete_elem(&processes, &tgid))
		return 0;
	release_image(image);
	key = (__u64)tgid << 32;
	bpf_map_delete_elem(&pressure_stopped, &key);
	if (recording)
		emit_plain(EVENT_EXIT, 0, (__u64)tgid << 32 | tid, 0);
	return 0;
}

#endif
