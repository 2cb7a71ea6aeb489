/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* New executable mappings: where code may be, and files nobody has looked at. */
#ifndef MEMTRACK_PROBE_MAPPING_H
#define MEMTRACK_PROBE_MAPPING_H

#define PROT_READ_BIT 1
#define PROT_EXEC_BIT 4
#define VM_EXEC_BIT 4
/* A personality under which readable means executable. */
#define READ_IMPLIES_EXEC_BIT 0x0400000

struct mapped {
	struct file_key file;
	__u64 start;
	__u64 end;
	__u64 flags;
};

static __always_inline void key_of_file(struct file *file, struct file_key *key)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);

	key->inode = BPF_CORE_READ(inode, i_ino);
	key->device = BPF_CORE_READ(inode, i_sb, s_dev);
	key->zero32 = 0;
	key->size_bytes = BPF_CORE_READ(inode, i_size);
}

static long note_mapped(struct task_struct *task, struct vm_area_struct *vma,
			struct mapped *mapped)
{
	struct file *file = vma->vm_file;

	mapped->start = vma->vm_start;
	mapped->end = vma->vm_end;
	mapped->flags = vma->vm_flags;
	if (file)
		key_of_file(file, &mapped->file);
	return 0;
}

/* Adds a file to the request unless it is known. */
static __always_inline void add_unknown(struct attach_record *request,
					const struct file_key *file, __u64 address)
{
	struct file_key key = *file;

	if (!key.inode || bpf_map_lookup_elem(&known_files, &key))
		return;
	/* The second file of a request is always another than the first. */
	if (request->file_count == 0) {
		request->files[0].file = key;
		request->files[0].address = address;
		request->file_count = 1;
	} else if (request->files[0].file.inode != key.inode ||
		   request->files[0].file.device != key.device) {
		request->files[1].file = key;
		request->files[1].address = address;
		request->file_count = 2;
	}
}

/* Holds the thread until user space has looked at the files. */
static __always_inline void send_request(const struct attach_record *request, __u64 id)
{
	struct attach_record *record;

	if (!request->file_count)
		return;
	/* The room first: nobody is stopped for a request that cannot be made. */
	record = bpf_ringbuf_reserve(&attach_ring, sizeof(*record), 0);
	if (!record) {
		count(COUNT_ATTACH_MISSED);
		return;
	}
	*record = *request;
	record->time_ns = bpf_ktime_get_ns();
	record->pid = id >> 32;
	record->tid = (__u32)id;
	record->stopped = stop_current(&attach_stopped, id);
	if (!record->stopped)
		count(COUNT_ATTACH_MISSED);
	bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
}

/* The files of a new image: the program, and the interpreter where it starts. */
static __always_inline void note_exec_files(struct task_struct *task, struct mm_struct *mm,
					    struct process *process)
{
	struct attach_record request = {};
	struct mapped mapped = {};
	struct file_key program = {};
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	__u64 entry = REGS_IP(regs);

	key_of_file(mm->exe_file, &program);
	add_unknown(&request, &program, mm->start_code);
	if (bpf_find_vma(task, entry, note_mapped, &mapped, 0) || entry >= mapped.end) {
		/* Code at an unknown place: take every word for code. */
		__u64 image = process->image;

		process->image = 0;
		release_image(image);
	} else {
		mark_code(process->image, mapped.start, mapped.end);
		add_unknown(&request, &mapped.file, mapped.start);
	}
	send_request(&request, (__u64)task->tgid << 32 | (__u32)task->pid);
}

/* The file of a descriptor of the current task. */
static __always_inline void key_of_descriptor(struct task_struct *task, __u32 descriptor,
					      struct file_key *key)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **slots = BPF_CORE_READ(table, fd);
	struct file *file = NULL;

	if (descriptor >= BPF_CORE_READ(table, max_fds))
		return;
	if (!bpf_probe_read_kernel(&file, sizeof(file), slots + descriptor) && file)
		key_of_file(file, key);
}

/*
 * Every system call's exit; the argument registers are still there. Not the
 * tracepoint of each call: those need tracefs, which containers lack.
 */
SEC("tp_btf/sys_exit")
int BPF_PROG(on_syscall_exit, struct pt_regs *regs, long result)
{
	long number = SYSCALL_NUMBER(regs);
	bool mmap = number == NR_MMAP;
	bool mremap = number == NR_MREMAP;

	if (!mmap && !mremap && number != NR_MPROTECT && number != NR_PKEY_MPROTECT)
		return 0;
	__u64 id = bpf_get_current_pid_tgid();
	__u32 tgid = id >> 32;

	if (!recording)
		return 0;
	struct process *process = bpf_map_lookup_elem(&processes, &tgid);

	if (!process || !process->active)
		return 0;
	/* An error is -4095 to -1. */
	if ((__u64)result >= (__u64)-4095l)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 protection = SYSCALL_ARG2(regs);
	__u64 start = mmap || mremap ? (__u64)result : SYSCALL_ARG0(regs);
	__u64 length = mremap ? SYSCALL_ARG2(regs) : SYSCALL_ARG1(regs);
	struct mapped mapped = {};

	if (task->personality & READ_IMPLIES_EXEC_BIT && protection & PROT_READ_BIT)
		protection |= PROT_EXEC_BIT;
	if (mremap) {
		/* Moved code: only the mapping tells. */
		if (bpf_find_vma(task, start, note_mapped, &mapped, 0) == 0 &&
		    !(mapped.flags & VM_EXEC_BIT))
			return 0;
		mark_code(process->image, start, start + length);
		process->space = new_id();
		return 0;
	}
	if (!(protection & PROT_EXEC_BIT))
		return 0;
	bool seen = mark_code(process->image, start, start + length);

	if (bpf_find_vma(task, start, note_mapped, &mapped, 0) || !mapped.file.inode) {
		/* The lock was taken, or it is no file's. */
		if (mmap)
			key_of_descriptor(task, (__u32)SYSCALL_ARG4(regs), &mapped.file);
	}
	if (!mapped.file.inode)
		return 0;
	/* Other code than before may be there now. */
	if (seen)
		process->space = new_id();
	struct attach_record request = {};

	add_unknown(&request, &mapped.file, start);
	send_request(&request, id);
	return 0;
}

#endif
