/* with_env NAME=VALUE... -- PROGRAM ARGUMENTS...

   Runs a program with more in its environment, as env(1) does, but without one
   call of malloc: under a capture it adds nothing to the counts, and what it sets
   (LD_PRELOAD) concerns the program alone and not the tool that records it.

   Build: gcc -O2 with_env.c -o with_env */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

enum { MOST = 1000 };

int main(int count, char **words)
{
	char *environment[MOST + 1];
	int n = 0, word = 1;

	for (; word < count && strcmp(words[word], "--"); word++)
		if (n < MOST)
			environment[n++] = words[word];
	for (char **old = environ; *old && n < MOST; old++)
		environment[n++] = *old;
	environment[n] = NULL;
	if (word + 1 >= count || n == MOST) {
		static const char usage[] = "usage: with_env NAME=VALUE... -- PROGRAM ARGUMENTS...\n";
		(void)!write(2, usage, sizeof usage - 1);
		return 2;
	}
	execve(words[word + 1], words + word + 1, environment);
	perror(words[word + 1]);
	return 127;
}
