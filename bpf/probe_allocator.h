/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The probes on allocator functions.
 *
 * Only the outermost call of a thread counts. While it is in progress, an
 * entry further down the stack is its own doing and is ignored. An entry at
 * the same place or above, or one while the return address of the outer call is
 * gone, means that the outer call is over without a return (longjmp). A tail
 * jump is at the same place too, but leaves the return address of the outer
 * call where it is: the kernel's trampoline.
 */
#ifndef MEMTRACK_PROBE_ALLOCATOR_H
#define MEMTRACK_PROBE_ALLOCATOR_H

/* Whether a return address is that of the kernel's trampoline. */
static __always_inline bool is_trampoline(__u64 address)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 trampoline = BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);

	return trampoline && address == trampoline;
}

/* The return address of the call that is being entered. */
static __always_inline __u64 return_address(struct pt_regs *ctx, __u64 sp)
{
#if defined(__TARGET_ARCH_x86)
	__u64 slot = 0;

	bpf_probe_read_user(&slot, sizeof(slot), (void *)sp);
	return slot;
#else
	return ctx->regs[30];
#endif
}

/*
 * Whether a call further up, entered with `sp`, is in progress still. Its
 * return address has not moved (arm64: it was saved nobody knows where).
 */
static __always_inline bool in_progress(__u64 sp)
{
#if defined(__TARGET_ARCH_x86)
	__u64 slot = 0;

	return !bpf_probe_read_user(&slot, sizeof(slot), (void *)sp) && is_trampoline(slot);
#else
	return true;
#endif
}

/* Whether this entry is part of a call that is in progress; ends one that left. */
static __always_inline bool is_nested(struct pt_regs *ctx, struct thread *thread, __u64 sp)
{
	if (!thread->cookie)
		return false;
	/* Lower, or on another stack that lies lower. */
	if (sp < thread->stack_pointer && in_progress(thread->stack_pointer))
		return true;
	if (sp == thread->stack_pointer && is_trampoline(return_address(ctx, sp)))
		return true;
	thread->cookie = 0;
	count(COUNT_ABANDONED);
	return false;
}

/*
 * a * b, or all ones when it does not fit. By halves: the compiler turns a
 * test by division into a 128-bit product, which BPF does not have.
 */
static __always_inline __u64 product(__u64 a, __u64 b)
{
	__u64 a_high = a >> 32, b_high = b >> 32;
	__u64 a_low = (__u32)a, b_low = (__u32)b;

	if (!a_high && !b_high)
		return a * b;
	if (a_high && b_high)
		return ~0ull;
	__u64 cross = a_high * b_low + a_low * b_high;
	__u64 low = a_low * b_low;

	if (cross >> 32 || (cross << 32) + low < low)
		return ~0ull;
	return (cross << 32) + low;
}

SEC("uprobe")
int allocation_entry(struct pt_regs *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct process *process = recorded_process(id >> 32);

	if (!process)
		return 0;
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u64 sp = REGS_SP(ctx) + 8 * COOKIE_PUSHED_WORDS(cookie);
	struct thread *thread = thread_entry((__u32)id);

	if (!thread || is_nested(ctx, thread, sp))
		return 0;
	__u64 registers[REGISTER_COUNT];

	registers_by_dwarf(ctx, registers);
	__u64 a = registers[COOKIE_REGISTER(cookie, 0) & 15];
	__u64 b = registers[COOKIE_REGISTER(cookie, 1) & 15];
	__u64 c = registers[COOKIE_REGISTER(cookie, 2) & 15];
	__u64 flags = COOKIE_FLAGS(cookie);

	thread->freed_cookie = 0;
	thread->start_ns = bpf_ktime_get_ns();
	thread->stack_pointer = sp;
	thread->flags = 0;
	thread->old_address = 0;
	thread->alignment = 0;
	thread->out = 0;
	switch (COOKIE_KIND(cookie)) {
	case EVENT_CALLOC:
		thread->size = flags & COOKIE_PRODUCT ? (b ? ~0ull : a) : product(a, b);
		break;
	case EVENT_REALLOC:
		thread->old_address = a;
		if (!(flags & COOKIE_ARRAY))
			thread->size = b;
		else
			thread->size = flags & COOKIE_PRODUCT ? (c ? ~0ull : b) : product(b, c);
		break;
	case EVENT_ALIGNED_ALLOC:
	case EVENT_MEMALIGN:
		thread->alignment = a;
		thread->size = b;
		break;
	case EVENT_POSIX_MEMALIGN:
		thread->out = a;
		thread->alignment = b;
		thread->size = c;
		break;
	default:
		thread->size = a;
		break;
	}
	take_stack(ctx, process, thread, id);
	/* Last: from here on the call is in progress. */
	thread->cookie = cookie;
	return 0;
}

SEC("uprobe")
int allocation_return(struct pt_regs *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 tid = id;

	if (!recording)
		return 0;
	struct thread *thread = bpf_map_lookup_elem(&threads, &tid);

	if (!thread)
		return 0;
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 kind = COOKIE_KIND(cookie);

	if (!thread->cookie) {
		if (recorded_process(id >> 32))
			count(COUNT_UNMATCHED_RETURN);
		return 0;
	}
	/* The return of a nested call. */
	if (cookie != thread->cookie || REGS_SP(ctx) != thread->stack_pointer + RETURN_POPS)
		return 0;
	__u64 result = REGS_RESULT(ctx);
	__u64 address = result;
	bool failed = !result;

	if (kind == EVENT_POSIX_MEMALIGN) {
		address = 0;
		failed = (__u32)result != 0 ||
			 bpf_probe_read_user(&address, sizeof(address), (void *)thread->out) ||
			 !address;
		if (failed)
			address = 0;
	} else if (kind == EVENT_REALLOC && !result && !thread->size && thread->old_address) {
		/* realloc(p, 0) without a result has released p. */
		failed = false;
	}
	emit_allocation(thread, id, address, failed ? EVENT_FAILED : 0);
	thread->cookie = 0;
	return 0;
}

/*
 * Whether a free is a wrapper's call of the real one. A free has no return
 * probe (it would cost as much again), so that its end is not known; but two
 * functions of different places that free one block, with nothing between
 * them and the second no higher on the stack, are one call.
 */
static __always_inline bool is_forwarded(struct thread *thread, __u64 cookie, __u64 address,
					 __u64 sp)
{
	if (thread->freed_cookie && thread->freed_cookie != cookie &&
	    thread->freed_address == address && sp <= thread->freed_stack_pointer)
		return true;
	thread->freed_address = address;
	thread->freed_cookie = cookie;
	thread->freed_stack_pointer = sp;
	return false;
}

SEC("uprobe")
int free_entry(struct pt_regs *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 tid = id;

	if (!recorded_process(id >> 32))
		return 0;
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u64 sp = REGS_SP(ctx) + 8 * COOKIE_PUSHED_WORDS(cookie);
	struct thread *thread = bpf_map_lookup_elem(&threads, &tid);

	if (thread && is_nested(ctx, thread, sp))
		return 0;
	__u64 registers[REGISTER_COUNT];

	registers_by_dwarf(ctx, registers);
	__u64 address = registers[COOKIE_REGISTER(cookie, 0) & 15];

	if (thread && is_forwarded(thread, cookie, address, sp))
		return 0;
	if (!address) {
		count(COUNT_NULL_FREES);
		return 0;
	}
	emit_plain(EVENT_FREE, 0, id, address);
	stop_on_pressure(&event_ring, event_high_bytes);
	return 0;
}

#endif
