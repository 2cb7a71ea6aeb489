#include "shapes.h"

void *far_away(std::size_t bytes)
{
	void *block = shapes::raw(bytes); // @far
	__asm__ volatile("" ::: "memory");
	return block;
}
