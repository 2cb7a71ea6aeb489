// Names of many kinds; each allocates a size of its own, by which the test
// knows what the stack must be called.
#include <cstdlib>

void *volatile sink;

#define KEPT __attribute__((noinline))
#define INLINED inline __attribute__((always_inline))

namespace depot {

struct Item {
	long value;
};

template <typename T, int N> struct Shelf {
	T *content;
	KEPT Shelf() { content = static_cast<T *>(malloc(8001)); sink = content; }
	KEPT void fill(T with) { sink = malloc(8002); content[0] = with; }
	KEPT Shelf &operator+=(const Shelf &) { sink = malloc(8003); return *this; }
};

namespace {
KEPT void hidden(const Item &) { sink = malloc(8004); __asm__ volatile("" ::: "memory"); }
}

INLINED void innermost(int size) { sink = malloc(size); }
INLINED void middle(int size) { innermost(size); }
KEPT void outermost()
{
	middle(8005); // the line of the call that was inlined
	__asm__ volatile("" ::: "memory");
}

template <typename F> KEPT void apply(F function) { function(); __asm__ volatile("" ::: "memory"); }

KEPT static void only_here(int) { sink = malloc(8007); __asm__ volatile("" ::: "memory"); }

} // namespace depot

extern "C" KEPT void plain_c() { sink = malloc(8008); __asm__ volatile("" ::: "memory"); }

int main()
{
	depot::Shelf<depot::Item, 3> shelf;
	shelf.fill({1});
	shelf += shelf;
	depot::hidden({2});
	depot::outermost();
	depot::apply([] { sink = malloc(8006); });
	depot::only_here(1);
	plain_c();
	return 0;
}
