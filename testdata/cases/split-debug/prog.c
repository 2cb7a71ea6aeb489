#include <stdlib.h>
#include <string.h>

struct order {
    struct order *next;
    char text[24];
};

static inline char *copy_of(const char *text) { char *copy = malloc(9301); /* @copy */
    return copy ? strcpy(copy, text) : NULL;
}

__attribute__((noinline)) static char *keep(struct order *order) { return copy_of(order->text); /* @keep */ }

int main(void) {
    struct order order = {.text = "kept to the end"};
    static char *kept;
    kept = keep(&order); /* @main */
    return kept ? 0 : 1;
}
