/* A family of processes: fork, vfork and exec, posix_spawn, and a grandchild
   that outlives its parent. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile kept;
extern char **environ;

__attribute__((noinline)) static void before(void)
{
	kept = malloc(7701); /* @before */
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void in_child(void)
{
	kept = malloc(7702); /* @child */
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void in_grandchild(void)
{
	kept = malloc(7703); /* @grandchild */
	__asm__ volatile("" ::: "memory");
}

int main(int count, char **words)
{
	pid_t pid;
	char *const next[] = {words[1], "7711", NULL};
	char *const spawned[] = {words[1], "7712", NULL};
	if (count < 2)
		return 2;
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* orphans come back to this process */
	before(); /* @m1 */
	if (fork() == 0) {
		in_child(); /* @m2 */
		if (fork() == 0) {
			in_grandchild(); /* @m3 */
			free(kept);
			_exit(0);
		}
		_exit(0);
	}
	pid = vfork();
	if (pid == 0) {
		execv(words[1], next);
		_exit(9);
	}
	if (posix_spawn(&pid, words[1], NULL, NULL, spawned, environ))
		return 3;
	while (wait(NULL) > 0)
		;
	free(kept); /* the block of before() */
	return 0;
}
