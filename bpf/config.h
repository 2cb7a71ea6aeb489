/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Settings, fixed before the programs are loaded, and switches. */
#ifndef MEMTRACK_CONFIG_H
#define MEMTRACK_CONFIG_H

/* The longest window that can be asked for. */
#define STACK_BYTES_MAX 65536
/* Scratch slots per CPU. */
#define SCRATCH_SLOTS 4

enum stack_mode {
	STACKS_OFF = 0,
	STACKS_FRAME_POINTER = 1,
	STACKS_RAW = 2,
};

/* What is taken of a stack: enum stack_mode. */
const volatile __u32 stack_mode = STACKS_RAW;
/* Bytes of a window, a multiple of 8, at most STACK_BYTES_MAX. */
const volatile __u32 stack_bytes = 32768;
/* Fill of the event ring, in bytes, above which the writer is stopped. */
const volatile __u64 event_high_bytes = 0;
/* The same for the stack ring. */
const volatile __u64 stack_high_bytes = 0;
/* Nobody is stopped when the reader was not seen for so long. */
const volatile __u64 reader_timeout_ns = 2000000000ull;

/*
 * Switches in writable memory. A map of one element would not do: the
 * verifier drops its null check, and the key on the program's stack can be
 * clobbered by a probe that interrupts.
 */

/* Whether events are taken. */
volatile __u32 recording = 0;
/* When the reader last looked, CLOCK_MONOTONIC ns. */
volatile __u64 reader_seen_ns = 0;
/* Pressure stops so far: tells the reader to look into the map. */
volatile __u64 pressure_stops = 0;
/* The last identifier given to an image or an address space. */
__u64 last_id = 0;

#endif
