// Allocations before main and after it.
#include <cstdlib>
#include <thread>

static void *volatile kept;

__attribute__((noinline)) static void take(std::size_t bytes)
{
	kept = std::malloc(bytes); // @take
	__asm__ volatile("" ::: "memory");
}

__attribute__((constructor)) static void first()
{
	take(8301); // @first
	__asm__ volatile("" ::: "memory");
}

struct Whole {
	std::size_t at_end;
	Whole(std::size_t begin, std::size_t end) : at_end(end)
	{
		take(begin); // @begin
		__asm__ volatile("" ::: "memory");
	}
	~Whole()
	{
		take(at_end); // @end
		__asm__ volatile("" ::: "memory");
	}
};
static Whole whole(8302, 8303);
static thread_local Whole own(8304, 8305);

static void at_exit()
{
	take(8306); // @atexit
	__asm__ volatile("" ::: "memory");
}

static void touch()
{
	own.at_end = 8305;
}

__attribute__((destructor)) static void last()
{
	take(8307); // @very-last
	__asm__ volatile("" ::: "memory");
}

int main()
{
	std::atexit(at_exit);
	std::thread(touch).join();
	return 0;
}
