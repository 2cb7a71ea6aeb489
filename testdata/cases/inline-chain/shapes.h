#pragma once
#include <cstddef>
#include <cstdlib>

extern void *volatile kept;

namespace shapes {

__attribute__((always_inline)) inline void *raw(std::size_t bytes)
{
	void *block = std::malloc(bytes); // @raw
	kept = block;
	return block;
}

template <typename Item>
struct Pool {
	std::size_t count;

	__attribute__((always_inline)) void *grow(std::size_t more) const
	{
		return raw((count + more) * sizeof(Item)); // @grow
	}
};

} // namespace shapes
