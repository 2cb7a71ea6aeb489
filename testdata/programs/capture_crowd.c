/*
 * PROCESSES processes of THREADS threads each, all of which allocate ROUNDS
 * times 777 bytes with stacks that hardly repeat: many writers at one ring.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS_MAX 64

static int rounds;

__attribute__((noinline)) static int descend(unsigned path, int depth)
{
	volatile char room[300];

	room[0] = (char)depth;
	if (depth == 0) {
		void *volatile block = malloc(777);

		free(block);
		return 0;
	}
	return path & 1 ? descend(path >> 1, depth - 1) + room[0]
			: descend(path >> 1, depth - 1) - 2 * room[0];
}

static void *run(void *argument)
{
	for (int i = 0; i < rounds; i++)
		descend((unsigned)i * 2654435761u + (unsigned)(long)argument, 20);
	return NULL;
}

int main(int argc, char **argv)
{
	int processes, threads, status, faults = 0;

	if (argc < 4)
		return 2;
	rounds = atoi(argv[1]);
	processes = atoi(argv[2]);
	threads = atoi(argv[3]);
	if (threads > THREADS_MAX)
		return 2;
	for (int i = 0; i < processes; i++) {
		pthread_t ids[THREADS_MAX];

		if (fork())
			continue;
		for (long j = 0; j < threads; j++)
			if (pthread_create(&ids[j], NULL, run, (void *)(j + 100 * i)))
				_exit(1);
		for (int j = 0; j < threads; j++)
			pthread_join(ids[j], NULL);
		_exit(0);
	}
	while (wait(&status) > 0)
		faults += status != 0;
	return faults;
}
