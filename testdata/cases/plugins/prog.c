/* Libraries that come and go: each is gone before the next one is there, so
   that the loader may give one the addresses of another. */
#include <dlfcn.h>
#include <stdlib.h>

__attribute__((noinline)) static void use(const char *file)
{
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	void (*run)(void) = library ? (void (*)(void))dlsym(library, "plugin_run") : NULL;
	if (!run)
		exit(2);
	run(); /* @use */
	dlclose(library);
}

int main(int count, char **words)
{
	for (int i = 1; i < count; i++)
		use(words[i]); /* @m1 */
	return 0;
}
