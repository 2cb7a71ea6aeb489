/* Frames that are hard to leave. Every site asks malloc for a size of its own,
 * by which the test knows what the stack must be. Built without frame pointers
 * and without tail calls. */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

void *volatile sink;
volatile long zero;

#define KEPT __attribute__((noinline, noclone))

KEPT static void site(size_t size)
{
	sink = malloc(size);
	__asm__ volatile("" : : : "memory");
}

/* 7001: the stack is realigned and has a variable part, so the CFA is a word in
 * memory (DW_CFA_def_cfa_expression on rbp). */
KEPT static void realigned(int n)
{
	volatile char pad[64] __attribute__((aligned(64)));
	volatile char *more = alloca(n);
	pad[0] = more[0] = 1;
	site(7001);
	pad[1] = more[n - 1];
}

/* 7002: a frame of 600 KiB, wider than compact rows reach. */
KEPT static void wide(void)
{
	volatile char pad[600 << 10];
	pad[0] = 1;
	site(7002);
	pad[1] = 1;
}

/* 7003 and 7004: the CFA is counted from rbx. In the second a C function that
 * saves and changes rbx stands between. */
KEPT void clobber(size_t size);
void on_rbx(size_t size, void (*call)(size_t));
__asm__(
	".text\n.globl on_rbx\n.type on_rbx,@function\n"
	"on_rbx:\n.cfi_startproc\n"
	"	push %rbx\n.cfi_def_cfa_offset 16\n.cfi_offset %rbx,-16\n"
	"	mov %rsp,%rbx\n.cfi_def_cfa_register %rbx\n"
	"	sub $1000,%rsp\n	and $-256,%rsp\n"
	"	call *%rsi\n"
	"	mov %rbx,%rsp\n.cfi_def_cfa_register %rsp\n"
	"	pop %rbx\n.cfi_def_cfa_offset 8\n"
	"	ret\n.cfi_endproc\n.size on_rbx,.-on_rbx\n");

KEPT void clobber(size_t size)
{
	register size_t kept __asm__("rbx") = size + 1;
	__asm__ volatile("" : "+r"(kept));
	site(size);
	__asm__ volatile("" : : "r"(kept));
}

/* 7005: the CFA is the word at rsp, by an expression:
 * DW_CFA_def_cfa_expression, 3 bytes: DW_OP_breg7 0, DW_OP_deref */
void by_expression(size_t size, void (*call)(size_t));
__asm__(
	".text\n.globl by_expression\n.type by_expression,@function\n"
	"by_expression:\n.cfi_startproc\n"
	"	lea 8(%rsp),%rax\n"
	"	sub $1016,%rsp\n.cfi_def_cfa_offset 1024\n"
	"	and $-512,%rsp\n"
	"	mov %rax,(%rsp)\n.cfi_escape 0x0f,0x03,0x77,0x00,0x06\n"
	"	call *%rsi\n"
	"	mov (%rsp),%rax\n"
	"	lea -8(%rax),%rsp\n.cfi_def_cfa %rsp,8\n"
	"	ret\n.cfi_endproc\n.size by_expression,.-by_expression\n");

/* 7006: a signal at the first instruction of a function, while the caller has
 * its CFA on rbx: every register must come back from the signal frame. */
void fault_first(long *p);
__asm__(
	".text\n.globl before_fault\n.type before_fault,@function\n"
	"before_fault:\n.cfi_startproc\n"
	"	sub $64,%rsp\n.cfi_def_cfa_offset 72\n"
	"	add $64,%rsp\n.cfi_def_cfa_offset 8\n"
	"	ret\n.cfi_endproc\n.size before_fault,.-before_fault\n"
	".globl fault_first\n.type fault_first,@function\n"
	"fault_first:\n.cfi_startproc\n"
	"	mov (%rdi),%eax\n"
	"	ret\n.cfi_endproc\n.size fault_first,.-fault_first\n");

KEPT static void fault_now(size_t size)
{
	(void)size;
	fault_first((long *)zero);
	__asm__ volatile("" : : : "memory");
}

static size_t handler_size;

static void handler(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	site(handler_size);
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}

/* 7007: the same with the handler on a stack of its own, of which nothing but
 * its own bytes was copied. */

/* 7008: a thread. */
KEPT static void *thread(void *unused)
{
	site(7008);
	return unused;
}

/* 7009: recursion with a variable part in each frame. */
KEPT static int deep(int n)
{
	volatile char *pad = alloca(16 + n % 7 * 24);
	pad[0] = n;
	if (n == 0)
		site(7009);
	else
		deep(n - 1);
	return pad[0];
}

/* 7010: the last instruction is a call that does not return, and what follows
 * has another frame. */
static void *leave_to;
__attribute__((noreturn)) KEPT static void leave(size_t size)
{
	site(size);
	__builtin_longjmp(leave_to, 1);
}
__attribute__((noreturn)) KEPT static void last_call(void)
{
	volatile char pad[200];
	pad[0] = 1;
	leave(7010);
}

int main(void)
{
	static char other_stack[1 << 16] __attribute__((aligned(16)));
	static void *buffer[5];
	struct sigaction action;
	stack_t other = { .ss_sp = other_stack, .ss_size = sizeof other_stack };
	pthread_t id;

	realigned(100);
	wide();
	on_rbx(7003, site);
	on_rbx(7004, clobber);
	by_expression(7005, site);

	memset(&action, 0, sizeof action);
	action.sa_sigaction = handler;
	action.sa_flags = SA_SIGINFO;
	sigaction(SIGSEGV, &action, 0);
	handler_size = 7006;
	on_rbx(0, fault_now);
	sigaltstack(&other, 0);
	action.sa_flags = SA_SIGINFO | SA_ONSTACK;
	sigaction(SIGSEGV, &action, 0);
	handler_size = 7007;
	on_rbx(0, fault_now);

	pthread_create(&id, 0, thread, 0);
	pthread_join(id, 0);
	deep(20);
	leave_to = buffer;
	if (!__builtin_setjmp(leave_to))
		last_call();
	return 0;
}
