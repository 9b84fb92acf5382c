#include "link_pieces.h"

#include <stdlib.h>
#include <string.h>

#include "jet_encode.h"
#include "link_sync.h"

/* -- shared frames ------------------------------------------------------------------------------ */

link_share *link_share_new(uint8_t *data) {
    link_share *s = malloc(sizeof *s);
    if (s != NULL) *s = (link_share){data, 1};
    return s;
}

int link_share_lend(link_share *s) {
    int alone = 1;
    return link_take_if(&s->alone, &alone, 0);
}

void link_share_leave(link_share *s) {
    if (!link_swap(&s->alone, 1)) return;
    free(s->data);
    free(s);
}

int link_share_end(link_share *s) {
    if (!link_share_lend(s)) {
        link_share_leave(s);
        return 0;
    }
    free(s);
    return 1;
}

/* -- pieces ------------------------------------------------------------------------------------- */

static void append(link_pieces *all, link_piece *p) {
    p->next = NULL;
    if (all->last)
        all->last->next = p;
    else
        all->first = p;
    all->last = p;
    all->size += jet_buf_len(&p->bytes);
}

static int add(link_pieces *all, jet_buf bytes, link_share *share) {
    link_piece *p = malloc(sizeof *p);
    if (p == NULL) return 0;
    *p = (link_piece){NULL, bytes, share};
    append(all, p);
    return 1;
}

int link_pieces_set_aside(link_pieces *all, jet_buf *b) {
    if (!add(all, *b, NULL)) return 0;
    jet_buf_init(b);
    return 1;
}

int link_pieces_lend(link_pieces *all, jet_span frame, link_share *share) {
    size_t start = (size_t)(frame.ptr - share->data);
    return add(all, (jet_buf){share->data, start, start + frame.len, start + frame.len}, share);
}

link_piece *link_pieces_take(link_pieces *all) {
    link_piece *p = all->first;
    if (p == NULL) return NULL;
    all->first = p->next;
    if (all->first == NULL) all->last = NULL;
    all->size -= jet_buf_len(&p->bytes);
    return p;
}

void link_piece_free(link_piece *p) {
    if (p == NULL) return;
    if (p->share)
        link_share_leave(p->share);
    else
        jet_buf_free(&p->bytes);
    free(p);
}

void link_pieces_clear(link_pieces *all) {
    link_piece *p;
    while ((p = link_pieces_take(all)) != NULL) link_piece_free(p);
}

/* Put what is left of a piece, which was taken out, at the end. */
static void put_back(link_pieces *all, link_piece *p) {
    if (jet_buf_len(&p->bytes))
        append(all, p);
    else
        link_piece_free(p);
}

size_t link_pieces_sift(link_pieces *all, size_t max_payload, int lines) {
    link_pieces before = *all;
    link_piece *p;
    size_t dropped = 0;
    *all = (link_pieces){NULL, NULL, 0};
    while ((p = link_pieces_take(&before)) != NULL) {
        dropped += jet_encode_sift(&p->bytes, max_payload, lines);
        put_back(all, p);
    }
    return dropped;
}

size_t link_pieces_retract(link_pieces *all, jet_span reply, size_t *first) {
    link_pieces before = *all;
    link_piece *p;
    size_t dropped = 0;
    *all = (link_pieces){NULL, NULL, 0};
    while ((p = link_pieces_take(&before)) != NULL) {
        size_t part = jet_buf_len(&p->bytes) < *first ? jet_buf_len(&p->bytes) : *first;
        *first -= part;
        if (part) dropped += jet_encode_retract(&p->bytes, reply, part);
        put_back(all, p);
    }
    return dropped;
}

size_t link_pieces_peek(const link_pieces *all, uint8_t *to, size_t n) {
    size_t done = 0;
    for (const link_piece *p = all->first; p && done < n; p = p->next) {
        size_t part = jet_buf_len(&p->bytes) < n - done ? jet_buf_len(&p->bytes) : n - done;
        memcpy(to + done, jet_buf_ptr(&p->bytes), part);
        done += part;
    }
    return done;
}
