/*
 * A tree of processes, each of which allocates a known size a known number of
 * times: by fork, vfork and exec, posix_spawn, and from a thread.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void *volatile block;

static void work(size_t size, int count)
{
	for (int i = 0; i < count; i++) {
		block = malloc(size);
		free(block);
	}
}

static int wait_for(pid_t pid)
{
	int status;

	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1;
}

static void *thread(void *argument)
{
	pid_t pid = fork();

	(void)argument;
	if (pid == 0) {
		work(2000003, 13);
		_exit(0);
	}
	return (void *)(long)wait_for(pid);
}

/* A thread that is not the first execs: it takes over the process's number. */
static void *exec_thread(void *argument)
{
	char *name = argument;
	char *executed[] = { name, "by thread", NULL };

	execv(name, executed);
	_exit(127);
}

int main(int argc, char **argv)
{
	char *spawned[] = { argv[0], "spawned", NULL };
	char *executed[] = { argv[0], "executed", NULL };
	pthread_t id;
	void *result;
	pid_t pid;
	int faults = 0;

	if (argc > 1) {
		if (!strcmp(argv[1], "spawned"))
			work(2000001, 7);
		else if (!strcmp(argv[1], "by thread"))
			work(2000007, 29);
		else
			work(2000002, 11);
		return 0;
	}
	faults += posix_spawn(&pid, argv[0], NULL, NULL, spawned, environ) || wait_for(pid);
	pid = vfork();
	if (pid == 0) {
		execv(argv[0], executed);
		_exit(127);
	}
	faults += wait_for(pid);
	faults += pthread_create(&id, NULL, thread, NULL) || pthread_join(id, &result) || result;
	pid = fork();
	if (pid == 0) {
		/* A grandchild that outlives its parent, not the command. */
		pid_t grandchild = fork();

		if (grandchild == 0) {
			work(2000005, 19);
			_exit(0);
		}
		work(2000004, 17);
		_exit(wait_for(grandchild));
	}
	faults += wait_for(pid);
	pid = fork();
	if (pid == 0) {
		pthread_create(&id, NULL, exec_thread, argv[0]);
		for (;;)
			pause();
	}
	faults += wait_for(pid);
	work(2000006, 23);
	return faults;
}
