/* The same source through several linkers: where code lies in the file and
   where it lies in memory differ in each. */
#include <stdlib.h>

void *lib_take(size_t);
const char padding[30000] = {5};
static void *volatile kept;

__attribute__((noinline, section("set_apart"))) static void apart(size_t bytes)
{
	kept = malloc(bytes); /* @apart */
	__asm__ volatile("" ::: "memory");
}

int main(void)
{
	kept = malloc(7901); /* @here */
	lib_take(7902); /* @m1 */
	apart(7903); /* @m2 */
	return 0;
}
