/*
 * A program with an allocator of its own, whose malloc(666) never returns: it
 * jumps out. What is allocated afterwards, further up or further down the
 * stack, counts all the same.
 */
#include <setjmp.h>
#include <stddef.h>

#define ROUNDS 10

static jmp_buf out;
static char memory[1 << 20];
static size_t used;
static void *volatile block;

__attribute__((noipa)) void *malloc(size_t size)
{
	if (size == 666)
		longjmp(out, 1);
	size = (size + 15) & ~(size_t)15;
	if (size > sizeof(memory) - used)
		return NULL;
	used += size;
	return memory + used - size;
}

__attribute__((noipa)) void free(void *pointer)
{
	(void)pointer;
}

__attribute__((noinline)) static int deep(int depth, size_t size)
{
	volatile char room[100];

	room[0] = 1;
	if (depth > 0)
		return deep(depth - 1, size) + room[0];
	block = malloc(size);
	return room[0];
}

int main(void)
{
	for (volatile int i = 0; i < ROUNDS; i++) {
		/* Left far down, then a call above it. */
		if (!setjmp(out))
			deep(5, 666);
		block = malloc(1000);
		free(block);
		/* Left here, then a call below. */
		if (!setjmp(out))
			block = malloc(666);
		deep(5, 1001);
		free(block);
	}
	return 0;
}
