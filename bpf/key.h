/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The key of a stack.
 *
 * It covers what an unwinder can use, and nothing else: words that may be code
 * addresses, and pointers into the stack that lie above their own slot (saved
 * frame pointers), relative to the stack pointer. Two stacks with one key
 * unwind alike; locals do not matter.
 */
#ifndef MEMTRACK_KEY_H
#define MEMTRACK_KEY_H

#define HASH_STEP 128
/* Below this nothing is mapped (vm.mmap_min_addr). */
#define LOWEST_ADDRESS 65536
/* Above this nothing of a user's is mapped (47 bits; 48 on arm64). */
#if defined(__TARGET_ARCH_x86)
#define USER_TOP (1ull << 47)
#define SIGNED_ADDRESSES 0
#define CODE_ADDRESS(word) (word)
#else
#define USER_TOP (1ull << 48)
#define SIGNED_ADDRESSES 1
/* Without the signature of a signed return address. */
#define CODE_ADDRESS(word) ((word) & (USER_TOP - 1))
#endif

/* Mixing steps of MurmurHash3 (x64, 128 bits), a public-domain design. */
static __always_inline __u64 mix(__u64 hash, __u64 word)
{
	word *= 0x87c37b91114253d5ull;
	word = (word << 31) | (word >> 33);
	word *= 0x4cf5ad432745937full;
	hash ^= word;
	hash = (hash << 27) | (hash >> 37);
	return hash * 5 + 0x52dce729;
}

static __always_inline __u64 finish(__u64 hash)
{
	hash ^= hash >> 33;
	hash *= 0xff51afd7ed558ccdull;
	hash ^= hash >> 33;
	hash *= 0xc4ceb9fe1a85ec53ull;
	hash ^= hash >> 33;
	/* 0 means "no key". */
	return hash ? hash : 1;
}

/* Whether the image may have code at an address. */
static __always_inline bool may_be_code(const struct image *image, __u64 word)
{
	__u64 address = CODE_ADDRESS(word);

	return address - LOWEST_ADDRESS < USER_TOP - LOWEST_ADDRESS &&
	       (image->code[(address >> 22) & (CODE_WORDS - 1)] >> ((address >> 16) & 63)) & 1;
}

struct hashing {
	struct scratch *scratch;
	const struct image *image;
	__u64 hash;
	__u64 stack_pointer;
	__u32 window;
	/* Where the steps begin. */
	__u32 base;
};

static __always_inline __u64 hash_word(__u64 hash, const struct hashing *hashing, __u32 offset,
				       __u64 word)
{
	/* Small numbers are most of what there is. */
	if (word - LOWEST_ADDRESS >= USER_TOP - LOWEST_ADDRESS && !SIGNED_ADDRESSES)
		return hash;
	__u64 distance = word - hashing->stack_pointer;

	if (distance < hashing->window) {
		if (distance >= offset && !(distance & 7))
			hash = mix(mix(hash, offset), distance);
	}
	if (may_be_code(hashing->image, word))
		hash = mix(mix(hash, offset), word);
	return hash;
}

/* A full step: no word of it lies past the window. */
static long hash_step(__u32 index, struct hashing *hashing)
{
	__u32 base = index * HASH_STEP;
	__u64 hash = hashing->hash;

	if (base > STACK_BYTES_MAX - HASH_STEP)
		return 1;
	const __u64 *words = (const __u64 *)&hashing->scratch->bytes[base];

#pragma unroll
	for (__u32 i = 0; i < HASH_STEP / 8; i++)
		hash = hash_word(hash, hashing, base + i * 8, words[i]);
	hashing->hash = hash;
	return 0;
}

/* A word of what is left behind the last full step. */
static long hash_rest(__u32 index, struct hashing *hashing)
{
	__u32 offset = hashing->base + index * 8;

	if (offset > STACK_BYTES_MAX - 8)
		return 1;
	__u64 word = *(const __u64 *)&hashing->scratch->bytes[offset & ~7u];

	hashing->hash = hash_word(hashing->hash, hashing, offset, word);
	return 0;
}

/* Hashes a register that points into the window. */
#define MIX_FRAME_REGISTER(number, value)                                  \
	do {                                                               \
		__u64 distance = (value) - sp;                             \
		if (distance <= window)                                    \
			hash = mix(mix(hash, ~(__u64)(number)), distance); \
	} while (0)

/* The key of the stack in the scratch slot. */
static __always_inline __u64 stack_key(struct pt_regs *ctx, struct scratch *scratch,
				       const struct process *process, __u64 sp, __u32 window)
{
	__u64 image_id = process->image;
	__u32 everywhere = 1;
	const struct image *image = bpf_map_lookup_elem(&images, &image_id);

	if (!image)
		image = bpf_map_lookup_elem(&image_templates, &everywhere);
	if (!image)
		return 0;
	__u64 hash = mix(mix(0x9e3779b97f4a7c15ull, process->space), REGS_IP(ctx));

	FOR_EACH_FRAME_REGISTER(ctx, MIX_FRAME_REGISTER);
#if defined(__TARGET_ARCH_arm64)
	hash = mix(hash, ctx->regs[30]);
#endif
	struct hashing hashing = {
		.scratch = scratch,
		.image = image,
		.hash = hash,
		.stack_pointer = sp,
		.window = window,
	};

	bpf_loop(window / HASH_STEP, hash_step, &hashing, 0);
	hashing.base = window & ~(HASH_STEP - 1u);
	bpf_loop((window & (HASH_STEP - 1)) / 8, hash_rest, &hashing, 0);
	return finish(hashing.hash);
}

#endif
