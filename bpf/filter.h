/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Who is recorded, and the counting of what could not be. */
#ifndef MEMTRACK_FILTER_H
#define MEMTRACK_FILTER_H

static __always_inline void count(__u32 reason)
{
	struct count *entry = bpf_map_lookup_elem(&counters, &reason);

	if (!entry)
		return;
	__u64 now = bpf_ktime_get_ns();

	/* Atomic, since a probe can interrupt this one on the same CPU. */
	__sync_fetch_and_add(&entry->count, 1);
	if (!entry->first_ns)
		entry->first_ns = now;
	entry->last_ns = now;
}

/* The current process when its events are taken, else NULL. */
static __always_inline struct process *recorded_process(__u32 tgid)
{
	struct process *process;

	if (!recording)
		return NULL;
	process = bpf_map_lookup_elem(&processes, &tgid);
	return process && process->active ? process : NULL;
}

/* The entry of a thread, made if it is missing. */
static __always_inline struct thread *thread_entry(__u32 tid)
{
	struct thread *thread = bpf_map_lookup_elem(&threads, &tid);

	if (thread)
		return thread;
	struct thread empty = {};

	bpf_map_update_elem(&threads, &tid, &empty, BPF_NOEXIST);
	thread = bpf_map_lookup_elem(&threads, &tid);
	if (!thread)
		count(COUNT_CALL_MAP_FULL);
	return thread;
}

static __always_inline __u64 new_id(void)
{
	return __sync_fetch_and_add(&last_id, 1) + 1;
}

#endif
