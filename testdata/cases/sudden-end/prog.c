/* Ends that run no handlers, or not all: what came before must be there. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *volatile kept;

__attribute__((noinline)) static void last_words(void)
{
	kept = malloc(8102); /* @last */
	__asm__ volatile("" ::: "memory");
}

static void *leaves(void *argument)
{
	(void)argument;
	exit(4); /* from a thread that is not the first */
}

static void *waits(void *argument)
{
	for (;;)
		pause();
	return argument;
}

int main(int count, char **words)
{
	const char *how = count > 1 ? words[1] : "";
	pthread_t thread;
	for (int i = 0; i < 300; i++)
		free(malloc(8101));
	last_words(); /* @m1 */
	if (!strcmp(how, "trap"))
		__builtin_trap();
	if (!strcmp(how, "term"))
		raise(SIGTERM);
	if (!strcmp(how, "kill"))
		kill(getpid(), SIGKILL);
	if (!strcmp(how, "quick"))
		quick_exit(5);
	if (!strcmp(how, "group")) {
		pthread_create(&thread, NULL, waits, NULL);
		_exit(6);
	}
	if (!strcmp(how, "thread")) {
		pthread_create(&thread, NULL, leaves, NULL);
		pause();
	}
	return 0;
}
