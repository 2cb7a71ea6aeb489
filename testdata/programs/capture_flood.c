/*
 * Allocates as fast as it can with stacks that hardly repeat, for as many
 * rounds as told: fills rings.
 */
#include <stdlib.h>

static void *volatile block;

/* Every path through the recursion is a stack of its own. */
__attribute__((noinline)) static int descend(unsigned path, int depth);

__attribute__((noinline)) static int left(unsigned path, int depth)
{
	return descend(path, depth) + 1;
}

__attribute__((noinline)) static int right(unsigned path, int depth)
{
	return descend(path, depth) + 2;
}

static int descend(unsigned path, int depth)
{
	/* Large frames, to have much to copy. */
	volatile char room[900];

	room[0] = (char)depth;
	if (depth == 0) {
		block = malloc(5000);
		free(block);
		return room[0];
	}
	return path & 1 ? left(path >> 1, depth - 1) + room[0]
			: right(path >> 1, depth - 1) - room[0];
}

int main(int argc, char **argv)
{
	int sum = 0;
	int rounds = argc > 1 ? atoi(argv[1]) : 10000;

	for (int i = 0; i < rounds; i++)
		sum += descend((unsigned)i * 2654435761u, 24);
	return sum == 42;
}
