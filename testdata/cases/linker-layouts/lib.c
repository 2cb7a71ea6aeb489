#include <stdlib.h>

const char lib_padding[12345] = {7};
void *volatile lib_kept;

__attribute__((noinline)) static void *deep(size_t bytes)
{
	void *block = malloc(bytes); /* @deep */
	lib_kept = block;
	return block;
}

void *lib_take(size_t bytes)
{
	void *block = deep(bytes); /* @lib */
	__asm__ volatile("" ::"r"(block) : "memory");
	return block;
}
