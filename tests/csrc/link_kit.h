/* What several tests of csrc/link do. */
#ifndef LINK_KIT_H
#define LINK_KIT_H

#include "check.h"
#include "link.h"

/* Take the next message of a queue, which has this payload. */
static inline void take_one(link_queue *q, jet_span payload) {
    jet_record r;
    CHECK(link_queue_find(q, 1, 0, 0, 0) == LINK_FOUND);
    CHECK(jet_chain_peek(&q->ready, &r) && same(r.payload, payload));
    jet_chain_drop(&q->ready, &r);
    link_queue_note_ready(q);
    link_add(&q->taken, 1);
}

#endif
