#include <stdlib.h>

void *volatile lib_kept;

/* One function under three names, one of them weak and one of them static. */
__attribute__((noinline)) void lib_take(size_t bytes)
{
	lib_kept = malloc(bytes); /* @lib */
	__asm__ volatile("" ::: "memory");
}
void lib_take_too(size_t) __attribute__((alias("lib_take")));
void lib_take_weak(size_t) __attribute__((weak, alias("lib_take")));
