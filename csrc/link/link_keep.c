#include "link_keep.h"

static const double SHARE = 0.5;       /* of the time, that waits may keep the lock */
static const double SAVED = 0.005;     /* seconds of that, at most, for later */
static const double LEAST = 0.0001;    /* a wait that may keep it for less gives it up */
static const double CHEAP = 0.5;       /* of a switch interval: no thread has computed all the time */
static const double COSTLY = 0.8;      /* of a switch interval: one has */
static const double BELIEVED = 100;    /* times what the lock cost: so long it is taken to go on */
static const int ENOUGH = 3;           /* costly waits in a row */

int link_keep_is_busy(const link_keep *k, double now) { return now < k->busy_until; }

double link_keep_for(link_keep *k, double now) {
    if (!link_keep_is_busy(k, now)) return 0;
    k->credit += (now - k->credited) * SHARE;
    if (k->credit > SAVED) k->credit = SAVED;
    k->credited = now;
    if (k->credit < LEAST) return 0;
    return k->credit < LINK_KEEP_LONGEST ? k->credit : LINK_KEEP_LONGEST;
}

void link_keep_kept(link_keep *k, double seconds) {
    k->credit -= seconds;
    k->kept += seconds;
}

void link_keep_returned(link_keep *k, double woke, double now, double kept_before, double interval) {
    double cost = now - woke - (k->kept - kept_before);
    if (cost < CHEAP * interval) {
        k->costly = 0;
    } else if (cost > COSTLY * interval && woke >= k->last_costly) {
        /* Threads that waited at the same time, as behind one that the system had stopped, are one
         * sign and not many. */
        k->last_costly = now;
        if (k->costly < ENOUGH) k->costly++;
        if (k->costly == ENOUGH) k->busy_until = now + BELIEVED * cost;
    }
}
