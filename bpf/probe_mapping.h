/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* New executable mappings: where code may be, and files nobody has looked at. */
#ifndef MEMTRACK_PROBE_MAPPING_H
#define MEMTRACK_PROBE_MAPPING_H

#define PROT_READ_BIT 1
#define PROT_EXEC_BIT 4
#define MAP_FIXED_BIT 0x10
#define VM_EXEC_BIT 4
#define GRANULE 65536ull
/* A personality under which readable means executable. */
#define READ_IMPLIES_EXEC_BIT 0x0400000
/* The vdso is one or two pages. */
#define VDSO_BYTES 8192

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

/* The code and the files of a new image. */
static __always_inline void note_exec_files(struct task_struct *task, struct mm_struct *mm,
					    struct process *process)
{
	struct attach_record request = {};
	struct mapped mapped = {};
	struct file_key program = {};
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	__u64 entry = REGS_IP(regs);
	__u64 image_id = process->image;
	struct image *image = bpf_map_lookup_elem(&images, &image_id);

	key_of_file(mm->exe_file, &program);
	add_unknown(&request, &program, mm->start_code);
	/* The interpreter, or the program itself, is where it begins to run. */
	bool found = !bpf_find_vma(task, entry, note_mapped, &mapped, 0) && entry < mapped.end;

	if (found)
		add_unknown(&request, &mapped.file, mapped.start);
	if (image && found) {
		__u64 vdso = (__u64)BPF_CORE_READ(mm, context.vdso);

		mark_code(image, mm->start_code, mm->end_code);
		mark_code(image, mapped.start, mapped.end);
		if (vdso)
			mark_code(image, vdso, vdso + VDSO_BYTES);
	} else if (image) {
		/* Code at an unknown place: take every word for code. */
		process->image = 0;
		release_image(image_id);
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
 * Notes new code, and gives the process a new space where an address of it may
 * have meant something else before, or means something else in a process that
 * has the same space.
 */
static __always_inline void note_code(struct process *process, __u64 start, __u64 end,
				      bool is_file, bool moved, bool fixed)
{
	__u64 image_id = process->image;
	struct image *image = bpf_map_lookup_elem(&images, &image_id);

	if (!image) {
		/* Not known what was where. */
		if (is_file || moved)
			process->space = new_id();
		return;
	}
	/*
	 * Code over code, as some loaders do. Granules at the edges are shared
	 * with neighbours, so only whole ones tell.
	 */
	if (fixed && has_code(image, (start + GRANULE - 1) & ~(GRANULE - 1), end & ~(GRANULE - 1)))
		image->ambiguous = 1;
	bool seen = mark_code(image, start, end);

	if (moved || (is_file && image->references > 1))
		image->ambiguous = 1;
	if (seen && image->ambiguous && (is_file || moved))
		process->space = new_id();
}

static __always_inline void on_unmapped(const struct process *process, __u64 start, __u64 end)
{
	__u64 image_id = process->image;
	struct image *image = bpf_map_lookup_elem(&images, &image_id);

	if (image && !image->ambiguous && has_code(image, start, end))
		image->ambiguous = 1;
}

static __always_inline void on_mapped(struct process *process, struct task_struct *task,
				      __u64 start, __u64 length, bool mmap, bool fixed,
				      __u32 descriptor)
{
	struct attach_record request = {};
	struct mapped mapped = {};

	if (bpf_find_vma(task, start, note_mapped, &mapped, 0) || !mapped.file.inode) {
		/* The lock was taken, or it is no file's. */
		if (mmap)
			key_of_descriptor(task, descriptor, &mapped.file);
	}
	bool is_file = mapped.file.inode != 0;

	note_code(process, start, start + length, is_file, false, fixed);
	if (!is_file)
		return;
	add_unknown(&request, &mapped.file, start);
	send_request(&request, bpf_get_current_pid_tgid());
}

static __always_inline void on_moved(struct process *process, struct task_struct *task,
				     __u64 start, __u64 length)
{
	struct mapped mapped = {};

	/* Only the mapping tells whether it is code; if in doubt, it is. */
	if (!bpf_find_vma(task, start, note_mapped, &mapped, 0) && !(mapped.flags & VM_EXEC_BIT))
		return;
	note_code(process, start, start + length, true, true, false);
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

	if (!mmap && number != NR_MUNMAP && number != NR_MREMAP && number != NR_MPROTECT &&
	    number != NR_PKEY_MPROTECT)
		return 0;
	__u64 protection = SYSCALL_ARG2(regs);
	struct task_struct *task = bpf_get_current_task_btf();

	if (mmap || number == NR_MPROTECT || number == NR_PKEY_MPROTECT) {
		if (task->personality & READ_IMPLIES_EXEC_BIT && protection & PROT_READ_BIT)
			protection |= PROT_EXEC_BIT;
		if (!(protection & PROT_EXEC_BIT))
			return 0;
	}
	/* An error is -4095 to -1. */
	if (!recording || (__u64)result >= (__u64)-4095l)
		return 0;
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct process *process = bpf_map_lookup_elem(&processes, &tgid);

	if (!process || !process->active)
		return 0;
	__u64 first = SYSCALL_ARG0(regs);
	__u64 second = SYSCALL_ARG1(regs);

	if (number == NR_MUNMAP)
		on_unmapped(process, first, first + second);
	else if (number == NR_MREMAP)
		on_moved(process, task, result, SYSCALL_ARG2(regs));
	else
		on_mapped(process, task, mmap ? (__u64)result : first, second, mmap,
			  mmap && SYSCALL_ARG3(regs) & MAP_FIXED_BIT, SYSCALL_ARG4(regs));
	return 0;
}

#endif
