/* A place for a debugger to stop at chosen allocations.

   Preloaded, it forwards to the C library and calls memtrack_stop_here with the
   size when that is one of the sizes in the file. A debugger that breaks there
   sees the caller's stack, at full speed for all other calls. Run without a
   debugger (and with the same file) it changes nothing, so that both runs ask for
   the same blocks.

   MEMTRACK_STOP    the file: 64-bit sizes, the first number says how many
   Build            gcc -g -O2 -fPIC -shared -fno-optimize-sibling-calls \
                        stop_preload.c -o stop_preload.so */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);

static const uint64_t *sizes; /* sizes[0] of them from sizes[1] on, ascending */

__attribute__((noinline)) void memtrack_stop_here(uint64_t bytes)
{
	__asm__ volatile("" ::"r"(bytes) : "memory");
}

/* The debugger stops inside the allocation function, as a probe does. */
static inline __attribute__((always_inline)) void look(uint64_t bytes)
{
	uint64_t low = 1, high;

	if (!sizes)
		return;
	high = sizes[0] + 1;
	while (low < high) {
		uint64_t middle = (low + high) / 2;
		if (sizes[middle] < bytes)
			low = middle + 1;
		else
			high = middle;
	}
	if (low <= sizes[0] && sizes[low] == bytes)
		memtrack_stop_here(bytes);
}

__attribute__((constructor)) static void begins(void)
{
	const char *path = getenv("MEMTRACK_STOP");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	off_t length = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	void *mapped = length < 8 ? MAP_FAILED : mmap(NULL, (size_t)length, PROT_READ, MAP_SHARED, fd, 0);

	if (fd >= 0)
		close(fd);
	if (mapped == MAP_FAILED)
		_exit(96);
	sizes = mapped;
}

void *malloc(size_t bytes)
{
	void *block;
	look(bytes);
	block = __libc_malloc(bytes);
	__asm__ volatile("" ::: "memory");
	return block;
}

void *calloc(size_t count, size_t each)
{
	void *block;
	look(count * each);
	block = __libc_calloc(count, each);
	__asm__ volatile("" ::: "memory");
	return block;
}

void *realloc(void *old, size_t bytes)
{
	void *block;
	look(bytes);
	block = __libc_realloc(old, bytes);
	__asm__ volatile("" ::: "memory");
	return block;
}
