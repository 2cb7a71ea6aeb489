#include <stdlib.h>

#define JOIN(a, b) a##b
#define NAMED(a, b) JOIN(a, b)

static void *volatile kept;

__attribute__((noinline)) static void NAMED(take_, LETTER)(void)
{
	kept = malloc(BYTES); /* @take */
	__asm__ volatile("" ::: "memory");
}

void plugin_run(void)
{
	NAMED(take_, LETTER)(); /* @run */
	__asm__ volatile("" ::: "memory");
}
