// Where the stacks of threads end: std::thread, a thread started by a thread,
// C11 threads, a detached thread, and a task of std::async.
#include <cstdlib>
#include <future>
#include <pthread.h>
#include <semaphore.h>
#include <thread>
#include <threads.h>

static void *volatile kept;
static sem_t done;

__attribute__((noinline)) static void take(std::size_t bytes)
{
	kept = std::malloc(bytes); // @take
	__asm__ volatile("" ::: "memory");
}

static void in_standard_thread()
{
	take(7301); // @standard
	__asm__ volatile("" ::: "memory");
}

static void *grandchild(void *argument)
{
	take(7302); // @grandchild
	return argument;
}

static void *child(void *argument)
{
	pthread_t thread;
	pthread_create(&thread, nullptr, grandchild, argument);
	pthread_join(thread, nullptr);
	return argument;
}

static int in_c_thread(void *)
{
	take(7303); // @c
	return 3;
}

static void *detached(void *argument)
{
	take(7304); // @detached
	sem_post(&done);
	return argument;
}

static int in_task()
{
	take(7305); // @task
	return 5;
}

int main()
{
	std::thread(in_standard_thread).join();
	pthread_t thread;
	pthread_create(&thread, nullptr, child, nullptr);
	pthread_join(thread, nullptr);
	thrd_t plain;
	thrd_create(&plain, in_c_thread, nullptr);
	thrd_join(plain, nullptr);
	sem_init(&done, 0, 0);
	pthread_create(&thread, nullptr, detached, nullptr);
	pthread_detach(thread);
	sem_wait(&done);
	std::async(std::launch::async, in_task).get();
	take(7306); // @m1
	return 0;
}
