#include <stdlib.h>

static void *volatile kept;

__attribute__((noinline)) static void take(size_t bytes)
{
	kept = malloc(bytes); /* @take */
	__asm__ volatile("" ::: "memory");
}

int main(int count, char **words)
{
	take(count > 1 ? strtoul(words[1], NULL, 10) : 1); /* @other-main */
	return 0;
}
