/* Stacks without frame pointers: two functions that call each other, frames
   whose size is known only at run time, a call that never returns as the last
   instruction of its function, and a frame larger than the default copy. */
#include <alloca.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

static void *volatile kept;
static jmp_buf home;
static volatile int rounds = 12;

__attribute__((noinline)) static void take(size_t bytes)
{
	kept = malloc(bytes); /* @take */
	__asm__ volatile("" ::: "memory");
}

static void odd(int n);

__attribute__((noinline)) static void even(int n)
{
	volatile long room[6] = {n};
	if (n == 0)
		take(7101); /* @deepest */
	else
		odd(n - 1); /* @even */
	room[5] = n;
}

__attribute__((noinline)) static void odd(int n)
{
	char *room = alloca(24 + 8 * n);
	memset(room, n, 24);
	even(n - 1); /* @odd */
	__asm__ volatile("" ::"r"(room) : "memory");
}

__attribute__((noinline, noreturn)) static void leap(void)
{
	take(7102); /* @leap */
	longjmp(home, 1);
}

/* Nothing follows the call: the return address belongs to the next function. */
__attribute__((noinline)) static void jumps_off(void)
{
	volatile char room[72];
	room[3] = 1;
	leap(); /* @off */
}

__attribute__((noinline)) void follower(void)
{
	volatile char room[200];
	room[0] = 2;
	take(7103); /* @follower */
	room[1] = 3;
}

__attribute__((noinline)) static void roomy(void)
{
	volatile char room[100 << 10];
	for (size_t i = 0; i < sizeof room; i += 512)
		room[i] = 1;
	take(7104); /* @roomy */
	room[7] = 4;
}

int main(void)
{
	even(rounds); /* @m1 */
	if (!setjmp(home))
		jumps_off(); /* @m2 */
	follower(); /* @m3 */
	roomy(); /* @m4 */
	return 0;
}
