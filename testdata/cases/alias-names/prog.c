/* Names that share an address, and blocks freed by threads that never
   allocated. */
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

void lib_take(size_t), lib_take_too(size_t), lib_take_weak(size_t);

static void *releases(void *block)
{
	free(block);
	return NULL;
}

int main(void)
{
	pthread_t thread;
	for (int i = 0; i < 25; i++) {
		void *block = malloc(7604);
		pthread_create(&thread, NULL, releases, block);
		pthread_join(thread, NULL);
	}
	for (int i = 0; i < 30; i++) {
		free(memalign(64, 7605));
		free(aligned_alloc(64, 7606));
	}
	lib_take(7601); /* @m1 */
	lib_take_too(7602); /* @m2 */
	lib_take_weak(7603); /* @m3 */
	return 0;
}
