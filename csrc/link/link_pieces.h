/* link_pieces - bytes that wait to leave in front of a buffer, in memory of their own.
 *
 * A buffer that would have to grow is set aside whole: growing would copy what waits in it. A large
 * frame that its maker keeps, to send it again, waits in the memory of its maker. */
#ifndef LINK_PIECES_H
#define LINK_PIECES_H

#include "jet_buf.h"

/* Bytes: frames from this size on are lent, and what waits is moved only while it is less. */
#define LINK_LARGE (64u * 1024u)

/* One whole frame that both its maker and the sender may have. It does not change. Whichever of the
 * two lets go last frees it. */
typedef struct link_share {
    uint8_t *data; /* from malloc */
    int alone;     /* one of the two has it (atomic) */
} link_share;

/* Wrap `data` so that it can be lent; the maker ends that with link_share_end. NULL: no memory, `data` is
 * the caller's as before. */
link_share *link_share_new(uint8_t *data);
/* Give it to the sender too. 0: the sender has it. By the maker. */
int link_share_lend(link_share *s);
/* The sender lets go. */
void link_share_leave(link_share *s);
/* The maker lets go. Returns whether the memory is the maker's again; else the sender frees it. `s` is
 * gone for the maker. */
int link_share_end(link_share *s);

typedef struct link_piece {
    struct link_piece *next;
    jet_buf bytes;
    link_share *share; /* whose memory `bytes` is; NULL: `bytes` owns it */
} link_piece;

/* In the order in which they were put in. They belong to the mutex of the buffer behind them. */
typedef struct link_pieces {
    link_piece *first, *last;
    size_t size; /* bytes in all of them */
} link_pieces;

/* Put the content of `b` at the end, and leave `b` empty, without memory. 0: no memory. */
int link_pieces_set_aside(link_pieces *all, jet_buf *b);
/* Put `frame`, which lies in `share` and is lent, at the end. 0: no memory. */
int link_pieces_lend(link_pieces *all, jet_span frame, link_share *share);
/* Take the first out; NULL: there is none. */
link_piece *link_pieces_take(link_pieces *all);
/* Free a piece that was taken out, with its bytes. NULL is allowed. */
void link_piece_free(link_piece *p);
/* Free all. */
void link_pieces_clear(link_pieces *all);
/* Drop messages as jet_encode_sift does; returns how many. */
size_t link_pieces_sift(link_pieces *all, size_t max_payload, int lines);
/* Drop messages in the first `*first` bytes as jet_encode_retract does; returns how many bytes. `*first`
 * becomes what was left of it behind them all. */
size_t link_pieces_retract(link_pieces *all, jet_span reply, size_t *first);
/* Copy up to `n` bytes; returns how many. */
size_t link_pieces_peek(const link_pieces *all, uint8_t *to, size_t n);

#endif
