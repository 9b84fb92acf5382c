/* jet_segment - received messages, copied once into blocks that have exactly one owner.
 *
 * A chain is a queue of segments; a segment is a block of records; a record is the lengths of one
 * message followed by its bytes. Appending goes to the tail, reading starts at the head. Nothing is
 * shared and nothing is counted: the holder of a chain owns all of it. */
#ifndef JET_SEGMENT_H
#define JET_SEGMENT_H

#include "jet_buf.h"
#include "jet_types.h"

/* A queue begins with a segment of the first size; with more waiting, or larger messages, each
 * further one has twice the size of the last, up to the full size. A larger message gets a segment of
 * its own. The first size is small because where thousands of queues have a message each, touching
 * a page for each of them would cost more than the message. */
#define JET_SEGMENT_FIRST 512u
#define JET_SEGMENT_MAX (256u * 1024u)

/* One message, every span borrowed from its segment. */
typedef struct jet_record {
    jet_span subject;
    jet_span reply;
    jet_span header;
    jet_span payload;
    int status;
} jet_record;

typedef struct jet_segment {
    struct jet_segment *next;
    uint8_t *data; /* behind this head, in the same piece of memory; of an adopted one owned */
    size_t len;    /* bytes written */
    size_t cap;
    size_t pos;    /* bytes read */
    size_t last;   /* where the newest record begins */
    int adopted;   /* `data` was a receive buffer */
} jet_segment;

/* Segments that wait to be used again: getting memory from the system and giving it back costs more
 * than all that is done in it. Full ones, and smaller ones by their size; of either kind so many
 * that they take 16 MiB at most. Any thread takes and gives at any time. Zero it. */
#define JET_POOL_SLOTS 64
#define JET_POOL_BYTES (JET_POOL_SLOTS * JET_SEGMENT_MAX)
#define JET_POOL_SIZES 9 /* from the first size by doubling to half of the full one */
typedef struct jet_pool {
    jet_segment *slot[JET_POOL_SLOTS];  /* full ones, owned, or NULL; atomic */
    int busy;                           /* whether a thread uses the next two (atomic) */
    size_t small_bytes;                 /* what those hold */
    jet_segment *small[JET_POOL_SIZES]; /* the others by size, lists by `next`, owned */
    uint32_t takes;                     /* how often one was taken (atomic) */
    uint32_t takes_before;              /* the same at the last jet_pool_rest (atomic) */
} jet_pool;

/* Free what waits. */
void jet_pool_free(jet_pool *p);
/* Free what waits if none was taken since the last call. */
void jet_pool_rest(jet_pool *p);

typedef struct jet_chain {
    jet_segment *head; /* owned, oldest first */
    jet_segment *tail;
    size_t count;      /* records not yet read */
    size_t bytes;      /* their subjects, replies, headers and payloads */
    size_t statuses;   /* how many of them have an inline status */
    size_t first_cap;  /* size of the next first segment: follows what was needed lately */
    jet_pool *pool;    /* where its segments come from and go to; NULL: malloc. Set by the caller */
} jet_chain;

void jet_chain_init(jet_chain *c);
/* Free every segment; the chain is empty and usable afterwards. */
void jet_chain_free(jet_chain *c);
/* Copy one message to the end. On JET_ERR_MEMORY the chain is unchanged. */
jet_status jet_chain_append(jet_chain *c, const jet_record *r);
/* The same for a record whose bytes lie in `buf` as a server sends them: in one line subject and
 * perhaps reply, each behind at least 15 other bytes of it in all, then header and payload in a row.
 * The chain takes the memory of `buf`, which is empty afterwards, and copies neither header nor
 * payload. On JET_ERR_MEMORY chain and buffer are unchanged. */
jet_status jet_chain_adopt(jet_chain *c, const jet_record *r, jet_buf *buf);
/* Look at the next record without taking it. Returns 0 when there is none. */
int jet_chain_peek(const jet_chain *c, jet_record *out);
/* Look at the last record. Returns 0 when there is none. */
int jet_chain_last(const jet_chain *c, jet_record *out);
/* Take the record that jet_chain_peek read last: its spans are not valid any more, because a segment
 * is given back with its last record. Does nothing when the chain has been emptied meanwhile. */
void jet_chain_drop(jet_chain *c, const jet_record *r);
/* Keep the first `n` records and drop the rest; returns how many that were. Without memory for a copy
 * of those that stay nothing is dropped. */
size_t jet_chain_cut(jet_chain *c, size_t n);
/* Move everything of `from` to the end of `to`, which has the same pool from then on; `from` is
 * empty afterwards and will start with a segment of a fitting size. No record is touched. */
void jet_chain_move(jet_chain *to, jet_chain *from);
/* The bytes that a message counts for. */
size_t jet_record_bytes(const jet_record *r);

/* Walk over a chain without changing it. The chain must not change meanwhile. */
typedef struct jet_chain_iter {
    const jet_segment *segment;
    size_t pos;
} jet_chain_iter;
void jet_chain_begin(const jet_chain *c, jet_chain_iter *it);
int jet_chain_next(jet_chain_iter *it, jet_record *out);

#endif
