// Something for a C++ compiler to chew: regular expressions and streams.
#include <iostream>
#include <regex>
#include <string>

int main()
{
	const std::regex date("([0-9]{4})-([0-9]{2})-([0-9]{2})");
	std::string line;
	while (std::getline(std::cin, line)) {
		std::smatch found;
		if (std::regex_search(line, found, date))
			std::cout << found[1] << '/' << found[2] << '/' << found[3] << '\n';
	}
}
