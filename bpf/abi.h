/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What passes between the kernel side and user space: records of the rings,
 * keys and values of maps, cookies of probes. User space reads the records in
 * src/record.rs only.
 */
#ifndef MEMTRACK_ABI_H
#define MEMTRACK_ABI_H

/* Where user space reads a field. */
#define AT(record, field, offset)                                            \
	_Static_assert(__builtin_offsetof(struct record, field) == (offset), \
		       #record "." #field)

/* Kinds of event; the numbers are those of the artifact's events. */
enum event_kind {
	EVENT_MALLOC = 1,
	EVENT_CALLOC = 2,
	EVENT_REALLOC = 3,
	EVENT_ALIGNED_ALLOC = 4,
	EVENT_MEMALIGN = 5,
	EVENT_POSIX_MEMALIGN = 6,
	EVENT_VALLOC = 7,
	EVENT_PVALLOC = 8,
	EVENT_FREE = 16,
	EVENT_FORK = 32,
	EVENT_EXEC = 33,
	EVENT_EXIT = 34,
};

enum event_flag {
	EVENT_FAILED = 1,
	EVENT_SHARES_MEMORY = 2,
	EVENT_STACK_LOST = 4,
	/* Only here: the event names a stack by its key. */
	EVENT_HAS_STACK = 0x80,
};

/* The head of every record of the event ring, and all of a free. */
struct event_head {
	__u64 time_ns;
	/* The block; for EVENT_FORK the child's pid. */
	__u64 address;
	__u32 pid;
	__u32 tid;
	__u8 kind;
	__u8 flags;
	__u16 zero16;
	__u32 zero32;
};
_Static_assert(sizeof(struct event_head) == 32, "event_head");
AT(event_head, address, 8);
AT(event_head, pid, 16);
AT(event_head, tid, 20);
AT(event_head, kind, 24);
AT(event_head, flags, 25);

/* An allocation. */
struct allocation_record {
	struct event_head head;
	__u64 start_ns;
	__u64 size;
	__u64 old_address;
	__u64 alignment;
	__u64 stack_key;
};
_Static_assert(sizeof(struct allocation_record) == 72, "allocation_record");
AT(allocation_record, start_ns, 32);
AT(allocation_record, size, 40);
AT(allocation_record, old_address, 48);
AT(allocation_record, alignment, 56);
AT(allocation_record, stack_key, 64);

/* General registers by DWARF number. */
#if defined(__TARGET_ARCH_x86)
#define REGISTER_COUNT 17
#else
#define REGISTER_COUNT 33
#endif

/* Entries of a frame-pointer chain, at most. */
#define CHAIN_MAX 127

/*
 * The head of a record of the stack ring. The window's bytes follow, padded
 * to 8, then the chain.
 */
struct stack_head {
	__u64 key;
	__u64 time_ns;
	__u64 stack_pointer;
	/* Bytes from the stack pointer to the top; 0: unknown. */
	__u64 available_bytes;
	__u32 pid;
	__u32 tid;
	__u32 window_bytes;
	__u32 chain_count;
	__u64 registers[REGISTER_COUNT];
};
_Static_assert(sizeof(struct stack_head) == 48 + 8 * REGISTER_COUNT, "stack_head");
AT(stack_head, time_ns, 8);
AT(stack_head, stack_pointer, 16);
AT(stack_head, available_bytes, 24);
AT(stack_head, pid, 32);
AT(stack_head, tid, 36);
AT(stack_head, window_bytes, 40);
AT(stack_head, chain_count, 44);
AT(stack_head, registers, 48);

/* A file as the kernel names it. */
struct file_key {
	__u64 inode;
	/* dev_t of the kernel: major << 20 | minor. */
	__u32 device;
	__u32 zero32;
	/* Length at the time: a file rewritten in place is another one. */
	__u64 size_bytes;
};
_Static_assert(sizeof(struct file_key) == 24, "file_key");
AT(file_key, device, 8);
AT(file_key, size_bytes, 16);

/* A file to be looked at, and an address at which it is mapped. */
struct attach_file {
	struct file_key file;
	__u64 address;
};

/* A thread waits until these files were looked at. */
struct attach_record {
	__u64 time_ns;
	__u32 pid;
	__u32 tid;
	/* 1 or 2. */
	__u32 file_count;
	/* Whether the thread was stopped. */
	__u32 stopped;
	struct attach_file files[2];
};
_Static_assert(sizeof(struct attach_record) == 24 + 2 * 32, "attach_record");
AT(attach_file, address, 24);
AT(attach_record, pid, 8);
AT(attach_record, tid, 12);
AT(attach_record, file_count, 16);
AT(attach_record, stopped, 20);
AT(attach_record, files, 24);

/* Key of the stop maps: tgid << 32 | tid (tid 0 for pressure). */
struct stop {
	/* 0 until the signal was sent. */
	__u64 since_ns;
};

/*
 * A probe's cookie, a byte each: kind, registers of the first three arguments
 * (DWARF numbers), words pushed since the entry, COOKIE_* bits; the rest is a
 * number of the place, which the entry and the return probe share.
 */
#define COOKIE_KIND(cookie) ((cookie) & 0xff)
#define COOKIE_REGISTER(cookie, n) (((cookie) >> (8 + 8 * (n))) & 0xff)
#define COOKIE_PUSHED_WORDS(cookie) (((cookie) >> 32) & 0xff)
#define COOKIE_FLAGS(cookie) (((cookie) >> 40) & 0xff)
/* The first two arguments are a product already: low word, high word. */
#define COOKIE_PRODUCT 1
/* Arguments as reallocarray has them: block, count, size. */
#define COOKIE_ARRAY 2

enum counter {
	COUNT_EVENT_RING_FULL,
	COUNT_STACK_RING_FULL,
	COUNT_STACK_COPY_FAILED,
	COUNT_NO_SCRATCH,
	COUNT_CALL_MAP_FULL,
	COUNT_UNMATCHED_RETURN,
	COUNT_PROCESS_MAP_FULL,
	/* A new file was mapped, and nobody could be told or stopped. */
	COUNT_ATTACH_MISSED,
	/* No losses from here on. */
	COUNT_NULL_FREES,
	/* Calls that left without returning (longjmp). */
	COUNT_ABANDONED,
	/* Stacks shipped although the map of keys had no room for them. */
	COUNT_STACK_MAP_FULL,
	/* Images without a map of their code: every plausible word counts. */
	COUNT_IMAGE_MAP_FULL,
	/* A stop was due, and could not be made. */
	COUNT_STOP_FAILED,
	COUNTERS,
};

/* A counter of one CPU. */
struct count {
	__u64 count;
	__u64 first_ns;
	__u64 last_ns;
};

#endif
