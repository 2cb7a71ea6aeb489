// Several threads that fill and empty containers, each with work of its own.
//
// threads [THREADS [ROUNDS]]
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Node {
	std::unique_ptr<Node> left, right;
	std::string text;
};

// A tree whose shape follows from a simple generator, the same in every run.
std::unique_ptr<Node> grow(unsigned depth, unsigned &seed)
{
	auto node = std::make_unique<Node>();
	seed = seed * 1664525u + 1013904223u;
	node->text.assign(16 + (seed >> 24), 'x');
	if (depth > 0) {
		if (seed & 0x10000)
			node->left = grow(depth - 1, seed);
		if (seed & 0x20000)
			node->right = grow(depth - 1, seed);
	}
	return node;
}

std::size_t weigh(const Node *node)
{
	return node ? node->text.size() + weigh(node->left.get()) + weigh(node->right.get()) : 0;
}

std::mutex guard;
std::map<unsigned, std::size_t> results;

void work(unsigned number, unsigned rounds)
{
	std::vector<std::string> words;
	std::map<std::string, unsigned> seen;
	unsigned seed = 77 + number;
	std::size_t weight = 0;

	// One request of a size that no other thread asks for.
	words.reserve(3000 + 11 * number);
	for (unsigned round = 0; round < rounds; round++) {
		weight += weigh(grow(12, seed).get());
		words.push_back("word number " + std::to_string(seed % 5000) + " of many");
		seen[words.back()]++;
		if (words.size() > 500)
			words.clear();
	}
	std::lock_guard<std::mutex> held(guard);
	results[number] = weight + seen.size();
}

} // namespace

int main(int count, char **arguments)
{
	unsigned threads = count > 1 ? std::strtoul(arguments[1], nullptr, 10) : 4;
	unsigned rounds = count > 2 ? std::strtoul(arguments[2], nullptr, 10) : 2000;
	std::vector<std::thread> running;

	for (unsigned number = 0; number < threads; number++)
		running.emplace_back(work, number, rounds);
	for (auto &thread : running)
		thread.join();
	std::size_t sum = 0;
	for (auto &[number, weight] : results)
		sum += weight;
	std::printf("%u threads, %zu\n", threads, sum);
	return 0;
}
