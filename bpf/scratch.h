/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Room for a stack being taken. */
#ifndef MEMTRACK_SCRATCH_H
#define MEMTRACK_SCRATCH_H

struct slot {
	struct scratch *scratch;
	__u64 bit;
	__u32 cpu;
};

/*
 * Claims one of this CPU's slots. A probe can be interrupted by another on the
 * same CPU, and they need not end in reverse order: hence bits, not a depth.
 */
static __always_inline bool claim_slot(struct slot *slot)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 *use = bpf_map_lookup_elem(&scratch_use, &cpu);

	if (!use)
		return false;
#pragma unroll
	for (__u32 i = 0; i < SCRATCH_SLOTS; i++) {
		__u64 bit = 1ull << i;

		if (__sync_fetch_and_or(use, bit) & bit)
			continue;
		__u32 index = cpu * SCRATCH_SLOTS + i;
		struct scratch *scratch = bpf_map_lookup_elem(&scratches, &index);

		if (!scratch) {
			__sync_fetch_and_and(use, ~bit);
			return false;
		}
		slot->scratch = scratch;
		slot->bit = bit;
		slot->cpu = cpu;
		return true;
	}
	return false;
}

static __always_inline void release_slot(const struct slot *slot)
{
	__u32 cpu = slot->cpu;
	__u64 *use = bpf_map_lookup_elem(&scratch_use, &cpu);

	if (use)
		__sync_fetch_and_and(use, ~slot->bit);
}

#endif
