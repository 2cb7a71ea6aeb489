// Calls inlined through a header: a template's member, a lambda, and a function
// of another unit that link-time optimisation may or may not take in.
#include "shapes.h"

void *volatile kept;
void *far_away(std::size_t bytes);

__attribute__((noinline)) static void by_template(std::size_t count)
{
	shapes::Pool<char> pool{count};
	pool.grow(1); // @template
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void by_lambda(std::size_t bytes)
{
	auto take = [](std::size_t n) __attribute__((always_inline)) {
		shapes::raw(n); // @lambda
		__asm__ volatile("" ::: "memory");
	};
	take(bytes); // @calls-lambda
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void by_unit(std::size_t bytes)
{
	void *block = far_away(bytes); // @unit
	__asm__ volatile("" ::"r"(block) : "memory");
}

int main(int count, char **)
{
	by_template(7799 + count); // @m1
	by_lambda(7801 + count); // @m2
	by_unit(7802 + count); // @m3
	return 0;
}
