/* Handlers that allocate: a trap on the first instruction of a function, a
   signal that arrives inside another handler, and a handler on a stack of its
   own, whose caller's frames lie elsewhere. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>

static void *volatile kept;
static char other_stack[64 << 10];
void traps(void);

/* ud2 is the very first instruction, so that the interrupted pc less one lies
   in the function before, whose frame has another size. */
__asm__(".text\n"
	".type wide_frame,@function\n"
	"wide_frame:\n.cfi_startproc\n"
	"	sub $136,%rsp\n.cfi_def_cfa_offset 144\n"
	"	add $136,%rsp\n.cfi_def_cfa_offset 8\n"
	"	ret\n.cfi_endproc\n.size wide_frame,.-wide_frame\n"
	".globl traps\n.type traps,@function\n"
	"traps:\n.cfi_startproc\n"
	"	ud2\n"
	"	ret\n.cfi_endproc\n.size traps,.-traps\n");

static void on_trap(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	kept = malloc(7201); /* @trap */
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}

static void on_inner(int number)
{
	(void)number;
	kept = malloc(7202); /* @inner */
	__asm__ volatile("" ::: "memory");
}

static void on_outer(int number)
{
	(void)number;
	raise(SIGUSR2); /* @outer */
	__asm__ volatile("" ::: "memory");
}

static void on_other_stack(int number)
{
	(void)number;
	kept = malloc(7203); /* @other */
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void trapping(void)
{
	volatile char room[50];
	room[0] = 1;
	traps(); /* @trapping */
	room[1] = 2;
}

__attribute__((noinline)) static void nesting(void)
{
	raise(SIGUSR1); /* @nesting */
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void switching(void)
{
	raise(SIGALRM); /* @switching */
	__asm__ volatile("" ::: "memory");
}

int main(void)
{
	struct sigaction trap = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
	struct sigaction other = {.sa_handler = on_other_stack, .sa_flags = SA_ONSTACK};
	stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
	sigaction(SIGILL, &trap, 0);
	signal(SIGUSR1, on_outer);
	signal(SIGUSR2, on_inner);
	sigaltstack(&stack, 0);
	sigaction(SIGALRM, &other, 0);
	trapping(); /* @m1 */
	nesting(); /* @m2 */
	switching(); /* @m3 */
	return 0;
}
