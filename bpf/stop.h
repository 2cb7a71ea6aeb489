/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Holding a process until user space lets it go. */
#ifndef MEMTRACK_STOP_H
#define MEMTRACK_STOP_H

#define SIGCONT_NUMBER 18
#define SIGSTOP_NUMBER 19
#define EEXIST 17

/* Somebody is there who will undo a stop. */
static __always_inline bool reader_alive(void)
{
	__u64 seen = reader_seen_ns;
	__u64 now = bpf_ktime_get_ns();

	return now < seen || now - seen < reader_timeout_ns;
}

/*
 * Another thread has stopped the process, but may not have got so far as to
 * take its signal: the current thread would go on writing until then. It takes
 * one of its own; if the entry is gone by then, so that nobody would undo it,
 * the signal is taken back.
 */
static __always_inline bool join_stop(void *map, __u64 key)
{
	if (bpf_send_signal_thread(SIGSTOP_NUMBER))
		return true;
	if (!bpf_map_lookup_elem(map, &key))
		bpf_send_signal_thread(SIGCONT_NUMBER);
	return true;
}

/*
 * Stops the current thread, and with it its process, before it returns to
 * user space; the signal goes to the thread, since another thread of the
 * process could be late in taking one sent to the process.
 *
 * The entry is made first (without it nobody would undo the stop), and gets
 * its time last: user space leaves entries without a time alone, so that no
 * SIGCONT can come before the SIGSTOP that it answers.
 */
static __always_inline bool stop_current(void *map, __u64 key)
{
	struct stop fresh = {};
	struct stop *entry;

	if (!recording || !reader_alive()) {
		count(COUNT_STOP_FAILED);
		return false;
	}
	long error = bpf_map_update_elem(map, &key, &fresh, BPF_NOEXIST);

	if (error == -EEXIST)
		return join_stop(map, key);
	if (error) {
		count(COUNT_STOP_FAILED);
		return false;
	}
	if (bpf_send_signal_thread(SIGSTOP_NUMBER)) {
		bpf_map_delete_elem(map, &key);
		count(COUNT_STOP_FAILED);
		return false;
	}
	entry = bpf_map_lookup_elem(map, &key);
	if (entry)
		entry->since_ns = bpf_ktime_get_ns();
	return true;
}

/* Holds the current process when a ring is filling faster than it is drained. */
static __always_inline void stop_on_pressure(void *ring, __u64 high_bytes)
{
	if (bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) < high_bytes)
		return;
	__u64 key = bpf_get_current_pid_tgid() & 0xffffffff00000000ull;

	if (stop_current(&pressure_stopped, key))
		__sync_fetch_and_add(&pressure_stops, 1);
}

#endif
