/* Function names that are markup, quotes or separators somewhere. The compiler
   takes any name as an assembler name. */
#include <stdlib.h>

static void *volatile kept;

#define NAMED(id, name, bytes)                                      \
	void id(void) __asm__(name);                                \
	__attribute__((noinline)) void id(void)                     \
	{                                                           \
		kept = malloc(bytes);                               \
		__asm__ volatile("" ::: "memory");                  \
	}

NAMED(a, "<b>bold</b>", 8201)
NAMED(b, "</script><script>alert(1)</script>", 8202)
NAMED(c, "\" onload=\"alert(2)", 8203)
NAMED(d, "left;right", 8204)
NAMED(e, "&amp;&#x3c;", 8205)
NAMED(f, "]]>", 8206)
NAMED(g, "${x}`y`", 8207)
NAMED(h, "name 42", 8208)

int main(void)
{
	a(), b(), c(), d(), e(), f(), g(), h();
	return 0;
}
