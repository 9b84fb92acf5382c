/* Misuse of mutexes, one kind a run: with LINK_DEBUG each ends the process. */
#include "link_sync.h"

int main(int argc, char **argv) {
    char kind = argc > 1 ? argv[1][0] : 'f';
    link_mutex routes, queue, other;
    link_mutex_init(&routes, LINK_ORDER_ROUTES);
    link_mutex_init(&queue, LINK_ORDER_QUEUE);
    link_mutex_init(&other, LINK_ORDER_QUEUE);
    if (kind == 'w') link_lock(&queue); /* wrong order: ROUTES comes first */
    link_lock(&routes);
    if (kind != 'w') link_lock(&queue);
    if (kind == 't') link_lock(&other); /* two of one order */
    if (kind == 'n') link_assert_held(&other); /* not held */
    link_assert_held(&queue);
    link_unlock(&queue);
    link_unlock(&routes);
    if (kind == 'u') link_unlock(&routes); /* unlocked twice */
    return 0;
}
