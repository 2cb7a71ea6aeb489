/* C functions whose names look mangled and are not; two of one address; one
 * whose name is that of a clone. Built with and without debug information. */
#include <stdlib.h>

void *volatile sink;

#define FUNCTION(name, size) \
	__attribute__((noinline)) void name(void) { sink = malloc(size); __asm__ volatile("" : : : "memory"); }

FUNCTION(_R, 8101)
FUNCTION(_Rx, 8102)
FUNCTION(_ZN, 8103)
FUNCTION(__ZN3foo3barE17h05af221e174051e9E, 8104)
FUNCTION(__long_name, 8105)
void name_two(void) __attribute__((alias("__long_name")));
void name_22(void) __attribute__((alias("__long_name")));
FUNCTION(_ZN3foo3barEi, 8106)

int main(void)
{
	_R();
	_Rx();
	_ZN();
	__ZN3foo3barE17h05af221e174051e9E();
	__long_name();
	_ZN3foo3barEi();
	return 0;
}
