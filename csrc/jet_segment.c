#include "jet_segment.h"

#include <stdlib.h>
#include <string.h>

/* The head of a record, before its bytes: the lengths of payload and header (4 bytes each), subject
 * and reply (2 each), and the status (2). They are fewer than what a server writes around subject and
 * reply, so an adopted record has room for them. Each is read and written where it stands: a copy of
 * all 14 in two overlapping words has the processor wait until both are stored. */
enum { AT_PAYLOAD = 0, AT_HEADER = 4, AT_SUBJECT = 8, AT_REPLY = 10, AT_STATUS = 12, LENGTHS = 14 };

static void put_u32(uint8_t *to, size_t n) {
    uint32_t v = (uint32_t)n;
    memcpy(to, &v, sizeof v);
}

static void put_u16(uint8_t *to, size_t n) {
    uint16_t v = (uint16_t)n;
    memcpy(to, &v, sizeof v);
}

static size_t get_u32(const uint8_t *from) {
    uint32_t v;
    memcpy(&v, from, sizeof v);
    return v;
}

static size_t get_u16(const uint8_t *from) {
    uint16_t v;
    memcpy(&v, from, sizeof v);
    return v;
}

void jet_chain_init(jet_chain *c) { memset(c, 0, sizeof *c); }

static void segment_free(jet_segment *s) {
    if (s->adopted) free(s->data);
    free(s);
}

static jet_segment *segment_new(size_t cap) {
    jet_segment *s = malloc(sizeof *s + cap);
    if (s) *s = (jet_segment){.data = (uint8_t *)(s + 1), .cap = cap};
    return s;
}

static jet_segment *full_take(jet_pool *p) {
    for (size_t i = 0; i < JET_POOL_SLOTS; i++) {
        if (__atomic_load_n(&p->slot[i], __ATOMIC_RELAXED) == NULL) continue;
        jet_segment *s = __atomic_exchange_n(&p->slot[i], NULL, __ATOMIC_ACQUIRE);
        if (s) return s;
    }
    return NULL;
}

static int full_give(jet_pool *p, jet_segment *s) {
    for (size_t i = 0; i < JET_POOL_SLOTS; i++) {
        jet_segment *none = NULL;
        if (__atomic_load_n(&p->slot[i], __ATOMIC_RELAXED) == NULL &&
            __atomic_compare_exchange_n(&p->slot[i], &none, s, 0, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
            return 1;
    }
    return 0;
}

/* A thread that finds the small segments in use goes to the system: none waits for another. */
static int small_enter(jet_pool *p) { return !__atomic_exchange_n(&p->busy, 1, __ATOMIC_ACQUIRE); }
static void small_leave(jet_pool *p) { __atomic_store_n(&p->busy, 0, __ATOMIC_RELEASE); }

static size_t size_index(size_t cap) {
    size_t i = 0;
    while (cap > JET_SEGMENT_FIRST) cap /= 2, i++;
    return i;
}

static jet_segment *small_take(jet_pool *p, size_t cap) {
    jet_segment **list = &p->small[size_index(cap)];
    if (!small_enter(p)) return NULL;
    jet_segment *s = *list;
    if (s) {
        *list = s->next;
        p->small_bytes -= cap;
        s->next = NULL;
    }
    small_leave(p);
    return s;
}

static int small_give(jet_pool *p, jet_segment *s) {
    jet_segment **list = &p->small[size_index(s->cap)];
    if (!small_enter(p)) return 0;
    int room = p->small_bytes + s->cap <= JET_POOL_BYTES;
    if (room) {
        s->next = *list;
        *list = s;
        p->small_bytes += s->cap;
    }
    small_leave(p);
    return room;
}

/* Get a segment of `cap` bytes, or of full size where that is nearly as much. */
static jet_segment *segment_take(jet_pool *p, size_t cap) {
    jet_segment *s = NULL;
    if (p && cap > JET_SEGMENT_MAX / 8 && cap <= JET_SEGMENT_MAX) s = full_take(p);
    if (p && s == NULL && cap < JET_SEGMENT_MAX) s = small_take(p, cap);
    if (s == NULL) return segment_new(cap);
    __atomic_add_fetch(&p->takes, 1, __ATOMIC_RELAXED);
    return s;
}

/* Give a segment back, or free it where it does not fit or no place is left. */
static void segment_give(jet_pool *p, jet_segment *s) {
    s->next = NULL;
    s->len = s->pos = 0;
    if (p && !s->adopted && s->cap <= JET_SEGMENT_MAX &&
        (s->cap == JET_SEGMENT_MAX ? full_give(p, s) : small_give(p, s)))
        return;
    segment_free(s);
}

void jet_pool_free(jet_pool *p) {
    for (jet_segment *s; (s = full_take(p)) != NULL;) segment_free(s);
    for (size_t cap = JET_SEGMENT_FIRST; cap < JET_SEGMENT_MAX; cap *= 2)
        for (jet_segment *s; (s = small_take(p, cap)) != NULL;) segment_free(s);
}

void jet_pool_rest(jet_pool *p) {
    uint32_t takes = __atomic_load_n(&p->takes, __ATOMIC_RELAXED);
    if (__atomic_exchange_n(&p->takes_before, takes, __ATOMIC_RELAXED) == takes) jet_pool_free(p);
}

void jet_chain_free(jet_chain *c) {
    jet_pool *pool = c->pool;
    while (c->head) {
        jet_segment *next = c->head->next;
        segment_give(pool, c->head);
        c->head = next;
    }
    jet_chain_init(c);
    c->pool = pool;
}

static void link_segment(jet_chain *c, jet_segment *s) {
    if (c->tail) c->tail->next = s;
    else c->head = s;
    c->tail = s;
}

size_t jet_record_bytes(const jet_record *r) {
    return r->subject.len + r->reply.len + r->header.len + r->payload.len;
}

/* Room for `n` bytes at the tail: in the tail as it is, or in a new segment of twice its size. */
static uint8_t *room(jet_chain *c, size_t n) {
    jet_segment *t = c->tail;
    if (t && t->cap - t->len >= n) return t->data + t->len;
    size_t cap = t ? 2 * t->cap : c->first_cap;
    if (cap == 0) cap = JET_SEGMENT_FIRST;
    if (cap > JET_SEGMENT_MAX || (t && t->adopted)) cap = JET_SEGMENT_MAX;
    while (cap < n) cap *= 2;
    jet_segment *s = segment_take(c->pool, cap);
    if (s == NULL) return NULL;
    link_segment(c, s);
    return s->data;
}

static uint8_t *put(uint8_t *to, jet_span s) {
    if (s.len) memcpy(to, s.ptr, s.len);
    return to + s.len;
}

static jet_status check_sizes(const jet_record *r) {
    if (r->subject.len > UINT16_MAX || r->reply.len > UINT16_MAX) return JET_ERR_SIZE;
    if (r->header.len > UINT32_MAX / 4 || r->payload.len > UINT32_MAX / 4) return JET_ERR_SIZE;
    return JET_OK;
}

static uint8_t *put_lengths(uint8_t *to, const jet_record *r) {
    put_u32(to + AT_PAYLOAD, r->payload.len);
    put_u32(to + AT_HEADER, r->header.len);
    put_u16(to + AT_SUBJECT, r->subject.len);
    put_u16(to + AT_REPLY, r->reply.len);
    put_u16(to + AT_STATUS, (size_t)r->status);
    return to + LENGTHS;
}

static void count(jet_chain *c, const jet_record *r) {
    c->count++;
    c->bytes += jet_record_bytes(r);
    c->statuses += r->status != 0;
}

jet_status jet_chain_append(jet_chain *c, const jet_record *r) {
    jet_status status = check_sizes(r);
    if (status != JET_OK) return status;
    size_t n = LENGTHS + jet_record_bytes(r);
    uint8_t *to = room(c, n);
    if (to == NULL) return JET_ERR_MEMORY;
    to = put_lengths(to, r);
    to = put(to, r->subject);
    to = put(to, r->reply);
    to = put(to, r->header);
    put(to, r->payload);
    c->tail->last = c->tail->len;
    c->tail->len += n;
    count(c, r);
    return JET_OK;
}

jet_status jet_chain_adopt(jet_chain *c, const jet_record *r, jet_buf *buf) {
    jet_status status = check_sizes(r);
    if (status != JET_OK) return status;
    jet_segment *s = calloc(1, sizeof *s);
    if (s == NULL) return JET_ERR_MEMORY;
    s->data = buf->data;
    s->cap = buf->cap;
    s->adopted = 1;
    s->len = (size_t)(r->payload.ptr + r->payload.len - buf->data);
    s->pos = s->last = s->len - jet_record_bytes(r) - LENGTHS;
    /* Both move towards the end of their line, the reply out of the way of the subject. */
    uint8_t *to = s->data + s->pos + LENGTHS;
    if (r->reply.len) memmove(to + r->subject.len, r->reply.ptr, r->reply.len);
    if (r->subject.len) memmove(to, r->subject.ptr, r->subject.len);
    put_lengths(s->data + s->pos, r);
    link_segment(c, s);
    count(c, r);
    jet_buf_init(buf);
    return JET_OK;
}

static jet_span cut(const uint8_t **p, size_t n) {
    jet_span s = {*p, n};
    *p += n;
    return s;
}

/* Read the record at `pos`; returns the position after it. */
static size_t read_record(const jet_segment *s, size_t pos, jet_record *out) {
    const uint8_t *head = s->data + pos;
    const uint8_t *p = head + LENGTHS;
    out->subject = cut(&p, get_u16(head + AT_SUBJECT));
    out->reply = cut(&p, get_u16(head + AT_REPLY));
    out->header = cut(&p, get_u32(head + AT_HEADER));
    out->payload = cut(&p, get_u32(head + AT_PAYLOAD));
    out->status = (int)get_u16(head + AT_STATUS);
    return pos + LENGTHS + jet_record_bytes(out);
}

int jet_chain_peek(const jet_chain *c, jet_record *out) {
    if (c->count == 0) return 0;
    read_record(c->head, c->head->pos, out);
    return 1;
}

int jet_chain_last(const jet_chain *c, jet_record *out) {
    if (c->count == 0) return 0;
    read_record(c->tail, c->tail->last, out);
    return 1;
}

void jet_chain_drop(jet_chain *c, const jet_record *r) {
    if (c->count == 0) return;
    jet_segment *s = c->head;
    size_t bytes = jet_record_bytes(r);
    s->pos += LENGTHS + bytes;
    c->count--;
    c->bytes -= bytes;
    c->statuses -= r->status != 0;
    if (s->pos < s->len) return;
    c->head = s->next;
    if (c->head == NULL) c->tail = NULL;
    segment_give(c->pool, s);
}

size_t jet_chain_cut(jet_chain *c, size_t n) {
    size_t dropped = c->count > n ? c->count - n : 0;
    jet_chain kept; /* what is left is copied to where nothing has to be taken apart */
    jet_record r;
    if (dropped == 0) return 0;
    if (n == 0) {
        jet_chain_free(c);
        return dropped;
    }
    jet_chain_init(&kept);
    kept.pool = c->pool;
    jet_chain_iter it;
    jet_chain_begin(c, &it);
    while (kept.count < n && jet_chain_next(&it, &r)) {
        if (jet_chain_append(&kept, &r) != JET_OK) {
            jet_chain_free(&kept);
            return 0;
        }
    }
    jet_chain_free(c);
    jet_chain_move(c, &kept);
    return dropped;
}

/* Busy chains start large (no growing by copies), idle ones shrink back to the first size. */
static size_t next_first_cap(const jet_chain *c) {
    if (c->tail == NULL || c->tail->adopted || c->tail->cap > JET_SEGMENT_MAX) return c->first_cap;
    size_t cap = c->tail->cap;
    if (c->head == c->tail && c->tail->len < cap / 4 && cap > JET_SEGMENT_FIRST) cap /= 2;
    return cap;
}

void jet_chain_move(jet_chain *to, jet_chain *from) {
    size_t first_cap = next_first_cap(from);
    to->pool = from->pool;
    if (to->tail) to->tail->next = from->head;
    else to->head = from->head;
    if (from->tail) to->tail = from->tail;
    to->count += from->count;
    to->bytes += from->bytes;
    to->statuses += from->statuses;
    jet_pool *pool = from->pool;
    jet_chain_init(from);
    from->first_cap = first_cap;
    from->pool = pool;
}

void jet_chain_begin(const jet_chain *c, jet_chain_iter *it) {
    it->segment = c->head;
    it->pos = c->head ? c->head->pos : 0;
}

int jet_chain_next(jet_chain_iter *it, jet_record *out) {
    while (it->segment && it->pos == it->segment->len) {
        it->segment = it->segment->next;
        it->pos = it->segment ? it->segment->pos : 0;
    }
    if (it->segment == NULL) return 0;
    it->pos = read_record(it->segment, it->pos, out);
    return 1;
}
