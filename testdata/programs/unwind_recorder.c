/* A library to preload: records stacks at malloc without any privilege.
 *
 * UNWIND_OUT    the file written (nothing is recorded without it)
 * UNWIND_EVERY  one call of so many is recorded (1)
 * UNWIND_SKIP   calls left out at first (0)
 * UNWIND_MAX    records at most (1000)
 * UNWIND_BYTES  bytes of stack copied at most (65536)
 *
 * The file is a row of records, little-endian:
 *   'M' maps:  u32 tag, u32 bytes, u64 time, text of /proc/self/maps
 *   'S' stack: u32 tag, u32 bytes of stack, u64 time, u32 pid, u32 tid,
 *              u64 bytes up to the top of the stack, u64 registers[17] by DWARF
 *              number as at the entry of malloc, the bytes
 * A new 'M' follows each change of the set of loaded libraries.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int out = -1;
static long every = 1, skip, max = 1000, bytes_most = 65536;
static long calls, records;
static unsigned long long known_adds;
static int lock;

static __thread int busy __attribute__((tls_model("initial-exec")));
static __thread uint64_t stack_low, stack_high __attribute__((tls_model("initial-exec")));

static char maps[1 << 20];

static void put(const void *from, size_t bytes)
{
	const char *at = from;
	while (bytes) {
		long n = syscall(SYS_write, out, at, bytes);
		if (n <= 0)
			return;
		at += n;
		bytes -= n;
	}
}

static uint64_t now(void)
{
	struct timespec t;
	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static size_t read_maps(void)
{
	size_t have = 0;
	int fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY);
	if (fd < 0)
		return 0;
	for (;;) {
		long n = syscall(SYS_read, fd, maps + have, sizeof maps - have);
		if (n <= 0)
			break;
		have += n;
	}
	syscall(SYS_close, fd);
	return have;
}

/* the mapping that holds the stack pointer */
static void find_stack(uint64_t sp)
{
	size_t have = read_maps();
	char *at = maps, *end = maps + have;

	stack_low = stack_high = 0;
	while (at < end) {
		char *p = at;
		uint64_t edge[2] = { 0, 0 };
		for (int i = 0; i < 2; i++, p++)
			for (;; p++) {
				if (*p >= '0' && *p <= '9')
					edge[i] = edge[i] * 16 + (*p - '0');
				else if (*p >= 'a' && *p <= 'f')
					edge[i] = edge[i] * 16 + (*p - 'a' + 10);
				else
					break;
			}
		if (edge[0] <= sp && sp < edge[1]) {
			stack_low = edge[0];
			stack_high = edge[1];
			return;
		}
		while (at < end && *at != '\n')
			at++;
		at++;
	}
}

static int adds(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	*(unsigned long long *)data = info->dlpi_adds;
	return 1;
}

__attribute__((visibility("hidden"))) void unwind_record(const uint64_t *registers)
{
	uint64_t sp = registers[7];
	unsigned long long seen = 0;

	if (out < 0 || busy)
		return;
	busy = 1;
	while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
		;
	if (calls++ < skip || (calls - 1 - skip) % every || records >= max)
		goto done;
	records++;
	dl_iterate_phdr(adds, &seen);
	if (seen != known_adds) {
		size_t have = read_maps();
		uint32_t head[2] = { 'M', have };
		uint64_t time = now();
		known_adds = seen;
		put(head, sizeof head);
		put(&time, sizeof time);
		put(maps, have);
	}
	if (sp < stack_low || sp >= stack_high)
		find_stack(sp);
	if (stack_high) {
		uint64_t available = stack_high - sp;
		uint32_t copied = available < (uint64_t)bytes_most ? available : (uint64_t)bytes_most;
		uint32_t head[2] = { 'S', copied };
		uint64_t time = now();
		uint32_t ids[2] = { getpid(), syscall(SYS_gettid) };
		put(head, sizeof head);
		put(&time, sizeof time);
		put(ids, sizeof ids);
		put(&available, sizeof available);
		put(registers, 17 * 8);
		put((void *)sp, copied);
	}
done:
	__atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
	busy = 0;
}

static long number(const char *name, long otherwise)
{
	const char *text = getenv(name);
	return text ? atol(text) : otherwise;
}

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("UNWIND_OUT");
	every = number("UNWIND_EVERY", 1);
	skip = number("UNWIND_SKIP", 0);
	max = number("UNWIND_MAX", 1000);
	bytes_most = number("UNWIND_BYTES", 65536);
	if (path) {
		out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		unsetenv("UNWIND_OUT"); /* children would overwrite the file */
	}
}

__asm__(
	".text\n"
	".globl malloc\n.type malloc,@function\n"
	"malloc:\n.cfi_startproc\n"
	"	sub $136,%rsp\n.cfi_def_cfa_offset 144\n"
	"	mov %rax,0(%rsp)\n	mov %rdx,8(%rsp)\n	mov %rcx,16(%rsp)\n"
	"	mov %rbx,24(%rsp)\n	mov %rsi,32(%rsp)\n	mov %rdi,40(%rsp)\n"
	"	mov %rbp,48(%rsp)\n	lea 136(%rsp),%rax\n	mov %rax,56(%rsp)\n"
	"	mov %r8,64(%rsp)\n	mov %r9,72(%rsp)\n	mov %r10,80(%rsp)\n"
	"	mov %r11,88(%rsp)\n	mov %r12,96(%rsp)\n	mov %r13,104(%rsp)\n"
	"	mov %r14,112(%rsp)\n	mov %r15,120(%rsp)\n"
	"	lea malloc(%rip),%rax\n	mov %rax,128(%rsp)\n"
	"	mov %rsp,%rdi\n	call unwind_record\n"
	"	mov 40(%rsp),%rdi\n"
	"	add $136,%rsp\n.cfi_def_cfa_offset 8\n"
	"	jmp __libc_malloc@PLT\n"
	".cfi_endproc\n.size malloc,.-malloc\n");
