/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Records of the event ring. */
#ifndef MEMTRACK_EMIT_H
#define MEMTRACK_EMIT_H

/* A free or a process event. */
static __always_inline void emit_plain(__u8 kind, __u8 flags, __u64 id, __u64 address)
{
	struct event_head *record = bpf_ringbuf_reserve(&event_ring, sizeof(*record), 0);

	if (!record) {
		count(COUNT_EVENT_RING_FULL);
	} else {
		record->time_ns = bpf_ktime_get_ns();
		record->address = address;
		record->pid = id >> 32;
		record->tid = (__u32)id;
		record->kind = kind;
		record->flags = flags;
		record->zero16 = 0;
		record->zero32 = 0;
		bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	}
}

/* The allocation that `thread` has begun and that ends now. */
static __always_inline void emit_allocation(struct thread *thread, __u64 id, __u64 address,
					    __u8 failed)
{
	struct allocation_record *record =
		bpf_ringbuf_reserve(&event_ring, sizeof(*record), 0);

	if (!record) {
		count(COUNT_EVENT_RING_FULL);
	} else {
		record->head.time_ns = bpf_ktime_get_ns();
		record->head.address = address;
		record->head.pid = id >> 32;
		record->head.tid = (__u32)id;
		record->head.kind = COOKIE_KIND(thread->cookie);
		record->head.flags = thread->flags | failed;
		record->head.zero16 = 0;
		record->head.zero32 = 0;
		record->start_ns = thread->start_ns;
		record->size = thread->size;
		record->old_address = thread->old_address;
		record->alignment = thread->alignment;
		record->stack_key = thread->stack_key;
		bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	}
	stop_on_pressure(&event_ring, event_high_bytes);
}

#endif
