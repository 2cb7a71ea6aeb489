/* Pairs of malloc and free in a loop, and what one pair took.

   pairs [PAIRS [DEPTH]]   DEPTH: calls between main and malloc
   Prints nanoseconds of the whole loop on standard output. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void *volatile kept;

__attribute__((noinline)) static void pair(unsigned long size, int depth)
{
	if (depth > 0) {
		pair(size, depth - 1);
	} else {
		kept = malloc(size);
		free(kept);
	}
	__asm__ volatile("" ::: "memory");
}

int main(int count, char **words)
{
	unsigned long pairs = count > 1 ? strtoul(words[1], NULL, 10) : 1000000;
	int depth = count > 2 ? atoi(words[2]) : 10;
	struct timespec begin, end;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (unsigned long i = 0; i < pairs; i++)
		pair(16 + i % 64, depth);
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%lld\n", (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec);
	return 0;
}
