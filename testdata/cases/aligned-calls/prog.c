/* The aligned functions, each once, with refused requests in between. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>

static int (*volatile posix)(void **, size_t, size_t) = posix_memalign;
static void *(*volatile aligned)(size_t, size_t) = aligned_alloc;
static void *(*volatile old_aligned)(size_t, size_t) = memalign;
static void *(*volatile page)(size_t) = valloc;
static void *(*volatile pages)(size_t) = pvalloc;
static void *volatile kept;

int main(void)
{
	void *here = &here, *block = here;

	if (posix(&block, 24, 7501) != EINVAL || block != here)
		return 1; /* not a power of two */
	if (posix(&block, 128, SIZE_MAX / 2) != ENOMEM || block != here)
		return 2;
	if (posix(&block, 128, 7502) || (uintptr_t)block % 128)
		return 3;
	free(block);
	block = aligned(256, 7503);
	free(block);
	kept = old_aligned(512, 7504); /* leaks */
	block = page(7505);
	free(block);
	block = pages(7506);
	free(block);
	return 0;
}
