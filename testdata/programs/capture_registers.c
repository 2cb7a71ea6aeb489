/*
 * Calls each allocator function with known values in the registers that a
 * callee must leave alone, and looks at them afterwards. A return probe at the
 * wrong place corrupts them without any other sign.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__x86_64__)
/* rbx, rbp, r12 to r15 hold 1 to 6 times PATTERN over the call. */
#define PATTERN 0x1111111111111111ull

uint64_t found[6];

__attribute__((naked, noinline)) static uint64_t call(void *function, uint64_t a, uint64_t b,
						      uint64_t c)
{
	__asm__("push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
		"sub $8, %rsp\n"
		"mov %rdi, %rax\n mov %rsi, %rdi\n mov %rdx, %rsi\n mov %rcx, %rdx\n"
		"movabs $0x1111111111111111, %rbx\n"
		"movabs $0x2222222222222222, %rbp\n"
		"movabs $0x3333333333333333, %r12\n"
		"movabs $0x4444444444444444, %r13\n"
		"movabs $0x5555555555555555, %r14\n"
		"movabs $0x6666666666666666, %r15\n"
		"call *%rax\n"
		"lea found(%rip), %rcx\n"
		"mov %rbx, (%rcx)\n mov %rbp, 8(%rcx)\n mov %r12, 16(%rcx)\n"
		"mov %r13, 24(%rcx)\n mov %r14, 32(%rcx)\n mov %r15, 40(%rcx)\n"
		"add $8, %rsp\n"
		"pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"
		"ret\n");
}

static int check(const char *name)
{
	int faults = 0;

	for (int i = 0; i < 6; i++) {
		if (found[i] == PATTERN * (i + 1))
			continue;
		printf("%s changed saved register %d: %#lx\n", name, i, (unsigned long)found[i]);
		faults++;
	}
	return faults;
}
#else
/* The compiler keeps these in saved registers over the call. */
static uint64_t call(void *function, uint64_t a, uint64_t b, uint64_t c)
{
	return ((uint64_t(*)(uint64_t, uint64_t, uint64_t))function)(a, b, c);
}

static int check(const char *name)
{
	(void)name;
	return 0;
}
#endif

int main(void)
{
	int faults = 0;

	for (int round = 0; round < 100; round++) {
		uint64_t block, other = 0;

		block = call(malloc, 100, 0, 0);
		faults += check("malloc");
		block = call(realloc, block, 20000, 0);
		faults += check("realloc");
		call(free, block, 0, 0);
		faults += check("free");
		block = call(calloc, 10, 30, 0);
		faults += check("calloc");
		block = call(reallocarray, block, 10, 50);
		faults += check("reallocarray");
		call(free, block, 0, 0);
		faults += check("free");
		block = call(aligned_alloc, 64, 640, 0);
		faults += check("aligned_alloc");
		call(free, block, 0, 0);
		block = call(memalign, 64, 600, 0);
		faults += check("memalign");
		call(free, block, 0, 0);
		call(posix_memalign, (uint64_t)&other, 64, 600);
		faults += check("posix_memalign");
		call(free, other, 0, 0);
		block = call(valloc, 600, 0, 0);
		faults += check("valloc");
		call(free, block, 0, 0);
		block = call(pvalloc, 600, 0, 0);
		faults += check("pvalloc");
		call(free, block, 0, 0);
		call(free, 0, 0, 0);
		faults += check("free(NULL)");
	}
	return faults != 0;
}
