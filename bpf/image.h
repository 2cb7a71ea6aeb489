/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Images: where code may be. */
#ifndef MEMTRACK_IMAGE_H
#define MEMTRACK_IMAGE_H

struct marking {
	struct image *image;
	__u64 first;
	__u64 seen;
};

static long mark_step(__u32 index, struct marking *marking)
{
	__u64 granule = marking->first + index;
	__u64 bit = 1ull << (granule & 63);
	__u64 *word = &marking->image->code[(granule >> 6) & (CODE_WORDS - 1)];

	marking->seen |= __sync_fetch_and_or(word, bit) & bit;
	return 0;
}

/* Notes that code may be in a range; tells whether some of it was noted before. */
static __always_inline bool mark_code(struct image *image, __u64 start, __u64 end)
{
	if (end <= start)
		return false;
	struct marking marking = { .image = image, .first = start >> 16 };
	__u64 granules = ((end - 1) >> 16) - marking.first + 1;

	if (granules > CODE_WORDS * 64)
		granules = CODE_WORDS * 64;
	bpf_loop(granules, mark_step, &marking, 0);
	return marking.seen;
}

struct search {
	const struct image *image;
	__u64 first;
	__u64 last;
	__u64 found;
};

/* One word of the bitmap per step: large ranges are common. */
static long search_step(__u32 index, struct search *search)
{
	__u64 word = (search->first >> 6) + index;
	__u64 mask = ~0ull;

	if (index == 0)
		mask <<= search->first & 63;
	if (word == search->last >> 6)
		mask &= ~0ull >> (63 - (search->last & 63));
	search->found |= search->image->code[word & (CODE_WORDS - 1)] & mask;
	return search->found != 0;
}

/* Whether code may be in a range. */
static __always_inline bool has_code(const struct image *image, __u64 start, __u64 end)
{
	if (end <= start)
		return false;
	struct search search = {
		.image = image,
		.first = start >> 16,
		.last = (end - 1) >> 16,
	};
	__u64 words = (search.last >> 6) - (search.first >> 6) + 1;

	if (words > CODE_WORDS)
		return true;
	bpf_loop(words, search_step, &search, 0);
	return search.found != 0;
}

static __always_inline void release_image(__u64 image_id)
{
	struct image *image = bpf_map_lookup_elem(&images, &image_id);

	if (image && __sync_fetch_and_sub(&image->references, 1) == 1)
		bpf_map_delete_elem(&images, &image_id);
}

static __always_inline __u64 new_image(void)
{
	__u64 image_id = new_id();
	__u32 zeros = 0;
	struct image *image = bpf_map_lookup_elem(&image_templates, &zeros);

	if (!image || bpf_map_update_elem(&images, &image_id, image, BPF_NOEXIST)) {
		count(COUNT_IMAGE_MAP_FULL);
		return 0;
	}
	image = bpf_map_lookup_elem(&images, &image_id);
	if (image)
		image->references = 1;
	return image_id;
}

#endif
