/* An independent count of what a program asks of the C library's allocator.

   Preloaded, it stands before malloc and its kin, counts each call from outside,
   and forwards it to the very functions that memtrack probes: glibc exports them
   a second time as __libc_malloc and so on, at the same addresses, so that no
   look-up (which could itself allocate) is needed.

   The counters lie in a file mapped by every process of the run, and are kept
   current: fork inherits them, exec maps them again, and nothing is lost when a
   process ends abruptly. Nothing here allocates.

   What runs before: until the program is relocated, ld.so uses a small allocator
   of its own, which is no function of the C library and which memtrack does not
   probe either. From then on ld.so and the C library itself call malloc by name,
   that is, through here. What does not come through here are calls inside
   malloc.c: a thread that ends frees its cache with __libc_free, but those blocks
   were freed before, so that they are no frees of live blocks.

   MEMTRACK_COUNT   the file: an array of eight 64-bit numbers, see enum
   Build            gcc -O2 -fPIC -shared count_preload.c -o count_preload.so */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void *__libc_valloc(size_t);
void *__libc_pvalloc(size_t);
void __libc_free(void *);

enum { ALLOCATIONS, FREES, BYTES, FAILED, NULL_FREES, IMAGES, COUNTERS = 8 };

static uint64_t *counters;
static int mapping; /* 0 before, 1 while one thread maps, 2 after */

static void give_up(const char *why)
{
	static const char name[] = "count_preload: ";
	(void)!write(2, name, sizeof name - 1);
	(void)!write(2, why, strlen(why));
	(void)!write(2, "\n", 1);
	_exit(96);
}

/* The variable's value from the kernel's copy of the environment: the first
   calls come before the C library has set `environ`. */
static void find_path(char *path, size_t room)
{
	static const char name[] = "MEMTRACK_COUNT=";
	int fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
	size_t matched = 0, taken = 0;
	int start = 1;
	char chunk[512];
	ssize_t n;

	while (fd >= 0 && (n = read(fd, chunk, sizeof chunk)) > 0)
		for (ssize_t i = 0; i < n; i++) {
			if (matched == sizeof name - 1) {
				if (taken == room)
					give_up("the path in MEMTRACK_COUNT is too long");
				path[taken++] = chunk[i];
				if (!chunk[i]) {
					close(fd);
					return;
				}
			} else if (start && chunk[i] == name[matched]) {
				matched++;
			} else {
				matched = 0;
				start = !chunk[i];
			}
		}
	give_up("MEMTRACK_COUNT is not set");
}

static void map_counters(void)
{
	int none = 0, saved = errno, fd;
	char path[4096];

	if (!__atomic_compare_exchange_n(&mapping, &none, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
		while (__atomic_load_n(&mapping, __ATOMIC_ACQUIRE) != 2)
			;
		return;
	}
	find_path(path, sizeof path);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		give_up("the file in MEMTRACK_COUNT cannot be opened");
	counters = mmap(NULL, COUNTERS * sizeof *counters, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (counters == MAP_FAILED)
		give_up("the file in MEMTRACK_COUNT cannot be mapped");
	close(fd);
	errno = saved;
	__atomic_store_n(&mapping, 2, __ATOMIC_RELEASE);
}

static void add(int counter, uint64_t n)
{
	if (__atomic_load_n(&mapping, __ATOMIC_ACQUIRE) != 2)
		map_counters();
	__atomic_fetch_add(&counters[counter], n, __ATOMIC_RELAXED);
}

static void *made(void *block, size_t bytes)
{
	add(block ? ALLOCATIONS : FAILED, 1);
	if (block)
		add(BYTES, bytes);
	return block;
}

__attribute__((constructor)) static void begins(void)
{
	add(IMAGES, 1); /* one more program was loaded with this library */
}

void *malloc(size_t bytes)
{
	return made(__libc_malloc(bytes), bytes);
}

void *calloc(size_t count, size_t each)
{
	return made(__libc_calloc(count, each), count * each);
}

void *realloc(void *old, size_t bytes)
{
	void *block;

	/* Counted before the call: once it is made, another thread may be given
	   the old block's address. A refusal takes it back. */
	if (old)
		add(FREES, 1);
	block = __libc_realloc(old, bytes);
	if (!block && old && bytes == 0)
		return NULL; /* glibc: the old block is freed, none is made */
	if (!block && old)
		add(FREES, -1);
	return made(block, bytes);
}

void *reallocarray(void *old, size_t count, size_t each)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, each, &bytes)) {
		add(FAILED, 1);
		errno = ENOMEM;
		return NULL;
	}
	return realloc(old, bytes);
}

void free(void *block)
{
	add(block ? FREES : NULL_FREES, 1);
	__libc_free(block);
}

void *memalign(size_t alignment, size_t bytes)
{
	return made(__libc_memalign(alignment, bytes), bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
	return made(__libc_memalign(alignment, bytes), bytes);
}

void *valloc(size_t bytes)
{
	return made(__libc_valloc(bytes), bytes);
}

void *pvalloc(size_t bytes)
{
	return made(__libc_pvalloc(bytes), bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
	/* Has no second name; found once, and dlsym's own calls are counted. */
	static int (*next)(void **, size_t, size_t);
	int result;

	if (!next)
		next = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
	result = next(out, alignment, bytes);
	add(result ? FAILED : ALLOCATIONS, 1);
	if (!result)
		add(BYTES, bytes);
	return result;
}
