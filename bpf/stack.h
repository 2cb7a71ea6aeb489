/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Taking a call stack: copy, key, and shipping of what is new. */
#ifndef MEMTRACK_STACK_H
#define MEMTRACK_STACK_H

#define COPY_STEP 1024
#define RETURN_INSTANCES_MAX 16

struct range {
	__u64 start;
	__u64 end;
};

static long note_range(struct task_struct *task, struct vm_area_struct *vma, struct range *range)
{
	range->start = vma->vm_start;
	range->end = vma->vm_end;
	return 0;
}

/*
 * Bytes from the stack pointer to the top of the stack; 0: unknown. The top is
 * where the thread began, if it still runs on that stack, else the end of the
 * mapping (coroutines, alternate signal stacks).
 */
static __always_inline __u64 stack_extent(struct thread *thread, __u64 sp)
{
	if (sp < thread->vma_start || sp >= thread->vma_end) {
		struct range range = {};

		if (bpf_find_vma(bpf_get_current_task_btf(), sp, note_range, &range, 0) ||
		    sp >= range.end) {
			/* The lock was taken: trust the initial stack if it is near. */
			if (sp < thread->stack_top && thread->stack_top - sp < (1 << 20))
				return thread->stack_top - sp;
			return 0;
		}
		thread->vma_start = range.start;
		thread->vma_end = range.end;
	}
	if (sp < thread->stack_top && thread->stack_top <= thread->vma_end)
		return thread->stack_top - sp;
	return thread->vma_end - sp;
}

struct copy {
	struct scratch *scratch;
	__u64 from;
	__u32 wanted;
	__u32 done;
};

/* Copies up to the next multiple of COPY_STEP, so that no step spans pages. */
static long copy_step(__u32 index, struct copy *copy)
{
	__u32 done = copy->done;
	__u64 from = copy->from + done;
	__u32 step = COPY_STEP - (from & (COPY_STEP - 1));

	if (done >= copy->wanted)
		return 1;
	if (step > copy->wanted - done)
		step = copy->wanted - done;
	if (done > STACK_BYTES_MAX - COPY_STEP || step > COPY_STEP)
		return 1;
	if (bpf_probe_read_user(&copy->scratch->bytes[done], step, (void *)from))
		return 1;
	copy->done = done + step;
	return 0;
}

/*
 * Puts return addresses back that the kernel has replaced by the trampoline of
 * a return probe.
 */
static __always_inline void repair_returns(struct scratch *scratch, __u64 sp, __u32 window)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct uprobe_task *utask = task->utask;
	struct return_instance *instance;

	if (!utask)
		return;
	instance = BPF_CORE_READ(utask, return_instances);
	for (int i = 0; i < RETURN_INSTANCES_MAX && instance; i++) {
		__u64 offset = BPF_CORE_READ(instance, stack) - sp;

		if (offset < window && offset <= STACK_BYTES_MAX - 8)
			*(__u64 *)&scratch->bytes[offset & ~7ull] =
				BPF_CORE_READ(instance, orig_ret_vaddr);
		instance = BPF_CORE_READ(instance, next);
	}
}

/* Ships the record in the slot; true when it is in the ring. */
static __always_inline bool ship(struct pt_regs *ctx, struct scratch *scratch,
				 struct thread *thread, __u64 id, __u64 available)
{
	__u32 window = scratch->head.window_bytes;
	__u32 chain = scratch->head.chain_count;

	registers_by_dwarf(ctx, scratch->head.registers);
	scratch->head.key = thread->stack_key;
	scratch->head.time_ns = thread->start_ns;
	scratch->head.stack_pointer = REGS_SP(ctx);
	scratch->head.available_bytes = available;
	scratch->head.pid = id >> 32;
	scratch->head.tid = (__u32)id;

	__u32 bytes = sizeof(struct stack_head) + window + chain * 8;

	if (bytes > sizeof(*scratch))
		return false;
	if (bpf_ringbuf_output(&stack_ring, scratch, bytes, BPF_RB_NO_WAKEUP)) {
		count(COUNT_STACK_RING_FULL);
		return false;
	}
	return true;
}

/*
 * Reads the frame-pointer chain behind the window. The probed function has not
 * made its frame yet, so that the frame pointer is its caller's, and the chain
 * lacks the return address into that caller: it is put in, behind the pc.
 * Kernels that see a probe on a function's first instruction (6.12) do so
 * themselves.
 */
static __always_inline void read_chain(struct pt_regs *ctx, struct scratch *scratch, __u32 window)
{
	__u64 caller = 0;

	if (window > STACK_BYTES_MAX)
		window = STACK_BYTES_MAX;
	__u64 *chain = (__u64 *)&scratch->bytes[window];
	long length = bpf_get_stack(ctx, chain + 1, (CHAIN_MAX - 1) * 8, BPF_F_USER_STACK);

	if (length < 8 || length > (CHAIN_MAX - 1) * 8) {
		scratch->head.chain_count = 0;
		return;
	}
	__u32 count = (__u32)length / 8;

#if defined(__TARGET_ARCH_x86)
	if (window >= 8)
		/* Where return probes were put right already. */
		caller = *(__u64 *)scratch->bytes;
	else if (bpf_probe_read_user(&caller, sizeof(caller), (void *)REGS_SP(ctx)))
		caller = 0;
#else
	caller = CODE_ADDRESS(ctx->regs[30]);
#endif
	chain[0] = chain[1];
	if (caller && !(count > 1 && chain[2] == caller)) {
		chain[1] = caller;
		count++;
	} else {
		/* As it was. */
		bpf_get_stack(ctx, chain, (CHAIN_MAX - 1) * 8, BPF_F_USER_STACK);
	}
	scratch->head.chain_count = count;
}

struct chain_hashing {
	struct scratch *scratch;
	__u64 hash;
};

static long chain_step(__u32 index, struct chain_hashing *hashing)
{
	if (index >= CHAIN_MAX)
		return 1;
	hashing->hash = mix(hashing->hash, *(__u64 *)&hashing->scratch->bytes[index * 8]);
	return 0;
}

/*
 * Takes the stack of the call that `thread` has begun: sets its key, and ships
 * the stack when the key is new.
 */
static __always_inline void take_stack(struct pt_regs *ctx, struct process *process,
				       struct thread *thread, __u64 id)
{
	__u64 sp = REGS_SP(ctx);
	__u64 available = 0;
	struct slot slot;

	thread->stack_key = 0;
	if (stack_mode == STACKS_OFF)
		return;
	if (!claim_slot(&slot)) {
		count(COUNT_NO_SCRATCH);
		thread->flags |= EVENT_STACK_LOST;
		return;
	}
	struct scratch *scratch = slot.scratch;

	if (stack_mode == STACKS_RAW) {
		available = stack_extent(thread, sp);
		struct copy copy = {
			.scratch = scratch,
			.from = sp,
			.wanted = stack_bytes,
		};

		if (available && available < copy.wanted)
			copy.wanted = available & ~7u;
		bpf_loop(STACK_BYTES_MAX / COPY_STEP + 1, copy_step, &copy, 0);
		__u32 window = copy.done & ~7u;

		if (!window || window > STACK_BYTES_MAX) {
			count(COUNT_STACK_COPY_FAILED);
			thread->flags |= EVENT_STACK_LOST;
			goto out;
		}
		repair_returns(scratch, sp, window);
		scratch->head.window_bytes = window;
		thread->stack_key = stack_key(ctx, scratch, process, sp, window);
	} else {
		struct chain_hashing hashing = {
			.scratch = scratch,
			.hash = mix(0x9e3779b97f4a7c15ull, process->space),
		};

		scratch->head.window_bytes = 0;
		read_chain(ctx, scratch, 0);
		bpf_loop(scratch->head.chain_count, chain_step, &hashing, 0);
		thread->stack_key = finish(hashing.hash);
	}
	thread->flags |= EVENT_HAS_STACK;

	__u64 key = thread->stack_key;

	if (bpf_map_lookup_elem(&stacks_seen, &key))
		goto out;
	if (stack_mode == STACKS_RAW)
		read_chain(ctx, scratch, scratch->head.window_bytes);
	if (ship(ctx, scratch, thread, id, available)) {
		__u32 one = 1;

		/* Not stored is not seen: it will be shipped again. */
		if (bpf_map_update_elem(&stacks_seen, &key, &one, BPF_ANY))
			count(COUNT_STACK_MAP_FULL);
	}
	stop_on_pressure(&stack_ring, stack_high_bytes);
out:
	release_slot(&slot);
}

#endif
