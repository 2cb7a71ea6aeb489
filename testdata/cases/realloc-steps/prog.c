/* What realloc, reallocarray and calloc mean for the books: a block that moves,
   one that shrinks, requests that are refused, and requests of size 0. All
   through volatile pointers, so that no compiler takes a call out. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

static void *(*volatile ask)(size_t) = malloc;
static void *(*volatile clear)(size_t, size_t) = calloc;
static void *(*volatile resize)(void *, size_t) = realloc;
static void *(*volatile rows)(void *, size_t, size_t) = reallocarray;
static void (*volatile give)(void *) = free;
static void *volatile kept;

int main(void)
{
	void *block = resize(NULL, 7401); /* begins as malloc does */
	void *fence = ask(7402);          /* stands in the way of growth */
	block = resize(block, 407403);    /* so that this one moves */
	block = resize(block, 7404);      /* and this one shrinks */
	give(fence);
	if (resize(block, PTRDIFF_MAX))   /* refused: 7404 lives on */
		return 1;
	give(block);

	block = clear(3, 2469);           /* 7407 bytes */
	if (clear(SIZE_MAX / 2, 3))       /* the product overflows */
		return 2;
	if (resize(block, 0))             /* frees, and gives nothing */
		return 3;

	block = rows(NULL, 4, 1852);      /* 7408 bytes */
	if (rows(block, SIZE_MAX, 2) || errno != ENOMEM)
		return 4;                 /* overflows: 7408 lives on */
	block = rows(block, 7, 1087);     /* 7609 bytes */
	kept = block;                     /* and is never freed */

	block = ask(0);                   /* a block like any other */
	give(block);
	give(NULL);
	give(NULL);
	give(NULL);

	block = NULL;
	for (int i = 1; i <= 200; i++)
		block = resize(block, 8000 + i);
	give(block);
	return 0;
}
