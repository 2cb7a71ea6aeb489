/*
 * Every allocator function a known number of times with sizes that nothing
 * else asks for. Sizes are 1,000,000 + n, so that what the C library does for
 * itself can be told apart.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>

#define SIZE(n) (1000000 + (n))

/* Keeps the compiler from leaving out a pair of malloc and free. */
static void *volatile block;

static void *keep(void *pointer)
{
	block = pointer;
	return block;
}

/* Not known to the compiler, which would warn. */
static volatile size_t too_large = PTRDIFF_MAX + (size_t)SIZE(12);

int main(void)
{
	for (int i = 0; i < 1000; i++)
		free(keep(malloc(SIZE(1))));
	for (int i = 0; i < 20; i++)
		free(keep(calloc(10, SIZE(0) / 10 + 2)));
	for (int i = 0; i < 30; i++) {
		void *old = keep(malloc(SIZE(3)));
		void *new = keep(realloc(old, SIZE(4)));

		free(new);
	}
	for (int i = 0; i < 5; i++)
		free(keep(realloc(NULL, SIZE(5))));
#ifdef __GLIBC__
	for (int i = 0; i < 7; i++)
		free(keep(reallocarray(NULL, 2, SIZE(6) / 2)));
	for (int i = 0; i < 3; i++)
		free(keep(valloc(SIZE(10))));
	for (int i = 0; i < 2; i++)
		free(keep(pvalloc(SIZE(11))));
#endif
	for (int i = 0; i < 11; i++)
		free(keep(aligned_alloc(64, SIZE(24))));
	for (int i = 0; i < 13; i++)
		free(keep(memalign(128, SIZE(8))));
	for (int i = 0; i < 17; i++) {
		void *aligned = NULL;

		if (posix_memalign(&aligned, 256, SIZE(9)))
			return 1;
		free(keep(aligned));
	}
	/* Failures: too large, and a product that does not fit. */
	for (int i = 0; i < 4; i++)
		keep(malloc(too_large));
	for (int i = 0; i < 6; i++)
		keep(calloc(too_large, 16));
	for (int i = 0; i < 9; i++) {
		void *unset = NULL;

		/* An alignment that is no power of two. */
		if (!posix_memalign(&unset, 24, SIZE(13)))
			return 1;
	}
	for (int i = 0; i < 8; i++) {
		/* Releases the block where the C library says so by NULL. */
		void *left = keep(realloc(keep(malloc(SIZE(14))), 0));

		free(left);
	}
	for (int i = 0; i < 15; i++)
		free(NULL);
	/* Never freed. */
	for (int i = 0; i < 3; i++)
		keep(malloc(SIZE(15)));
	return 0;
}
