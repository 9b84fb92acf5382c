/* link_keep: when a wait keeps the interpreter's lock. */
#include "check.h"
#include "link.h"

/* A wait that gave the lock up at `now` and had it back after `cost`. */
static double wait_once(link_keep *k, double now, double cost) {
    link_keep_returned(k, now, now + cost, k->kept, 0.005);
    return now + cost;
}

void suite_keep(void) {
    link_keep k = {0};
    double now = 100, kept = 0;
    /* A thread computes when three waits in a row cost a switch interval. */
    CHECK(link_keep_for(&k, now) == 0);
    now = wait_once(&k, now, 0.005);
    now = wait_once(&k, now, 0.005);
    now = wait_once(&k, now, 0.001); /* it did not: the lock was there at once */
    now = wait_once(&k, now, 0.005);
    now = wait_once(&k, now, 0.005);
    CHECK(link_keep_for(&k, now) == 0);
    now = wait_once(&k, now, 0.003); /* neither dear nor cheap: says nothing */
    now = wait_once(&k, now, 0.005);
    CHECK(link_keep_for(&k, now) == LINK_KEEP_LONGEST);
    CHECK(link_keep_is_busy(&k, now + 0.49) && !link_keep_is_busy(&k, now + 0.51));
    /* It is believed for a while; then one wait tries, and one costly one is enough. */
    CHECK(link_keep_for(&k, now + 0.49) > 0 && link_keep_for(&k, now + 0.51) == 0);
    now = wait_once(&k, now + 0.51, 0.005);
    CHECK(link_keep_for(&k, now) > 0);
    now = wait_once(&k, now + 0.51, 0.0001);
    CHECK(link_keep_for(&k, now) == 0);

    /* Threads that had to wait at the same time are one sign. */
    for (int n = 0; n < 10; n++) link_keep_returned(&k, now + 0.0001 * n, now + 0.006, 0, 0.005);
    CHECK(link_keep_for(&k, now + 0.006) == 0);
    /* What other waits kept is none. */
    for (int n = 0; n < 10; n++) {
        double before = k.kept;
        link_keep_kept(&k, 0.0049);
        link_keep_returned(&k, now + 0.01 * n, now + 0.01 * n + 0.005, before, 0.005);
    }
    CHECK(link_keep_for(&k, now + 0.1) == 0);

    /* Together the waits keep it for half of the time, and a little may be saved for later. */
    k = (link_keep){.busy_until = 1000, .credited = now};
    for (double end = now + 1; now < end; now += 0.0001) {
        double may = link_keep_for(&k, now);
        CHECK(may <= LINK_KEEP_LONGEST);
        link_keep_kept(&k, may);
        kept += may;
        now += may;
    }
    CHECK(kept > 0.48 && kept < 0.51 && k.kept == kept);
    now += 5;
    for (kept = 0; link_keep_for(&k, now) > 0; kept += 0.001) link_keep_kept(&k, 0.001);
    CHECK(kept > 0.0045 && kept < 0.0065);
}
