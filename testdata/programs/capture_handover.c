/*
 * Four threads allocate, and each frees what its neighbour has allocated.
 * Prints nothing; 4 x 20,000 blocks of 4,000 + thread bytes.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sched.h>
#include <stdlib.h>

#define THREADS 4
#define BLOCKS 20000
#define SLOTS 64

static _Atomic(void *) slots[THREADS][SLOTS];

static void *run(void *argument)
{
	long self = (long)argument;
	long next = (self + 1) % THREADS;
	long given = 0, taken = 0;

	while (given < BLOCKS || taken < BLOCKS) {
		long before = given + taken;

		if (given < BLOCKS) {
			_Atomic(void *) *slot = &slots[next][given % SLOTS];

			if (!atomic_load(slot)) {
				atomic_store(slot, malloc(4000 + self));
				given++;
			}
		}
		if (taken < BLOCKS) {
			void *block = atomic_exchange(&slots[self][taken % SLOTS], NULL);

			if (block) {
				free(block);
				taken++;
			}
		}
		if (given + taken == before)
			sched_yield();
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];

	for (long i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)i))
			return 1;
	for (long i = 0; i < THREADS; i++)
		if (pthread_join(threads[i], NULL))
			return 1;
	return 0;
}
