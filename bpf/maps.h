/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The maps. All are allocated in advance: a probe must not fail for memory. */
#ifndef MEMTRACK_MAPS_H
#define MEMTRACK_MAPS_H

/* A tracked process, by tgid. */
struct process {
	/*
	 * Names what its addresses mean: equal addresses in equal spaces are the
	 * same code. New at exec, and when code is mapped where other code may
	 * have been; a fork child has its parent's.
	 */
	__u64 space;
	/* Key of its image in `images`. */
	__u64 image;
	/* Events are taken (the command itself: from its exec on). */
	__u32 active;
	__u32 zero32;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u32);
	__type(value, struct process);
} processes SEC(".maps");

#define CODE_WORDS 1024

/*
 * Where code may be, for all processes that descend from one exec by fork: a
 * bit per 64 KiB of the address modulo 4 GiB. Bits are only ever set. One too
 * many costs a few bytes; one too few would take two stacks for one.
 */
struct image {
	__u64 code[CODE_WORDS];
	__u64 references;
	/*
	 * Code was unmapped or moved, or mapped by one process of several: from
	 * then on an address may mean this here and that there.
	 */
	__u64 ambiguous;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2048);
	__type(key, __u64);
	__type(value, struct image);
} images SEC(".maps");

/* Values too large for a program's stack: 0 is zeros, 1 is "code everywhere". */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct image);
} image_templates SEC(".maps");

/* A thread of a tracked process, by tid, with its outermost call. */
struct thread {
	/* The mapping that held the stack pointer when it was looked up last. */
	__u64 vma_start;
	__u64 vma_end;
	/* The initial stack pointer, or a little above it. */
	__u64 stack_top;
	/* A call is in progress: the cookie of its probe, else 0. */
	__u64 cookie;
	__u32 flags;
	__u32 zero32;
	/* The stack pointer at its entry. */
	__u64 stack_pointer;
	__u64 start_ns;
	__u64 size;
	__u64 old_address;
	__u64 alignment;
	/* posix_memalign: where the block's address will be. */
	__u64 out;
	__u64 stack_key;
	/* The last event, if it was a free: by which probe (else 0), of what, where. */
	__u64 freed_cookie;
	__u64 freed_address;
	__u64 freed_stack_pointer;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 131072);
	__type(key, __u32);
	__type(value, struct thread);
} threads SEC(".maps");

/* Keys of the stacks that were shipped. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1048576);
	__type(key, __u64);
	__type(value, __u32);
} stacks_seen SEC(".maps");

/* A stack being taken: the record as it is shipped. */
struct scratch {
	struct stack_head head;
	__u8 bytes[STACK_BYTES_MAX + CHAIN_MAX * 8 + 8];
};

/* SCRATCH_SLOTS of them for each CPU (sized before loading). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SCRATCH_SLOTS);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

/* A bit per slot that is in use, one word per CPU (sized before loading). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} scratch_use SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 32 * 1024 * 1024);
} event_ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 128 * 1024 * 1024);
} stack_ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} attach_ring SEC(".maps");

/* Files that were looked at: 1. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct file_key);
	__type(value, __u32);
} known_files SEC(".maps");

/* Who waits until a ring has been drained. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u64);
	__type(value, struct stop);
} pressure_stopped SEC(".maps");

/* Who waits until a file has been probed. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u64);
	__type(value, struct stop);
} attach_stopped SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, __u32);
	__type(value, struct count);
} counters SEC(".maps");

#endif
