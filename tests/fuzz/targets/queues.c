/* Invariants of jet_segment, jet_slots and jet_buf, for any order of calls:
 *
 *   - a chain gives back what was put in, in order, through any moves, and its count and charge
 *     are exact;
 *   - a slot's key finds its own pointer until it is removed, and nothing at all afterwards;
 *   - a buffer holds exactly what was appended and not consumed.
 *
 * Input: pairs of bytes, a call and its size.
 */
#include "fuzz.h"

#define LIVE 32

static uint8_t bytes[70000];

/* The nth record, made again to be compared with. */
static jet_record record(size_t n, const uint16_t sizes[]) {
    jet_record r = {jet_span_of(bytes + n % 13, 1 + n % 9), jet_span_of(bytes + n % 7, n % 5),
                    jet_span_of(bytes + n % 11, n % 3), jet_span_of(bytes + n % 17, sizes[n]),
                    (int)(n % 4 ? 0 : 404)};
    return r;
}

typedef struct queue {
    jet_chain chain;
    uint16_t next[4096]; /* numbers of the records it holds, oldest first */
    size_t first, last, bytes;
} queue;

static queue in_box, in_hand;
static jet_pool pool;
static uint16_t sizes[4096];

static void take(queue *q) {
    jet_record got;
    int more = jet_chain_peek(&q->chain, &got);
    CHECK(more == (q->first < q->last));
    if (!more) return;
    jet_record want = record(q->next[q->first++], sizes);
    CHECK(jet_span_equal(got.subject, want.subject) && jet_span_equal(got.reply, want.reply));
    CHECK(jet_span_equal(got.header, want.header) && jet_span_equal(got.payload, want.payload));
    CHECK(got.status == want.status);
    q->bytes -= jet_record_bytes(&got);
    jet_chain_drop(&q->chain, &got);
}

static void check_queue(const queue *q) {
    jet_chain_iter it;
    jet_record r;
    size_t count = 0;
    jet_chain_begin(&q->chain, &it);
    while (jet_chain_next(&it, &r)) count++;
    CHECK(count == q->last - q->first && jet_chain_last(&q->chain, &r) == (count > 0));
    if (count == 0) return;
    jet_record want = record(q->next[q->last - 1], sizes);
    CHECK(jet_span_equal(r.subject, want.subject) && jet_span_equal(r.payload, want.payload));
}

static void check_chains(jet_span calls) {
    size_t made = 0;
    jet_chain_init(&in_box.chain);
    jet_chain_init(&in_hand.chain);
    in_box.chain.pool = &pool;
    in_box.first = in_box.last = in_box.bytes = 0;
    in_hand.first = in_hand.last = in_hand.bytes = 0;
    while (calls.len && made < 2000) {
        unsigned call = cut_byte(&calls), size = cut_byte(&calls);
        jet_record r;
        switch (call % 6) {
        case 0:
        case 1:
            sizes[made] = (uint16_t)(size * (call > 240 ? 250 : 3));
            r = record(made, sizes);
            CHECK(jet_chain_append(&in_box.chain, &r) == JET_OK);
            in_box.bytes += jet_record_bytes(&r);
            in_box.next[in_box.last++] = (uint16_t)made++;
            break;
        case 2: take(&in_hand); break;
        case 3: take(&in_box); break;
        case 4:
            jet_chain_move(&in_hand.chain, &in_box.chain);
            while (in_box.first < in_box.last) in_hand.next[in_hand.last++] = in_box.next[in_box.first++];
            in_hand.bytes += in_box.bytes;
            in_box.first = in_box.last = in_box.bytes = 0;
            break;
        default:
            if (size > 8) break; /* seldom: or nothing would ever gather */
            jet_chain_free(&in_box.chain);
            in_box.first = in_box.last = in_box.bytes = 0;
        }
        CHECK(in_box.chain.count == in_box.last - in_box.first && in_box.chain.bytes == in_box.bytes);
        CHECK(in_hand.chain.count == in_hand.last - in_hand.first);
        CHECK(in_hand.chain.bytes == in_hand.bytes);
    }
    check_queue(&in_box);
    check_queue(&in_hand);
    while (in_hand.chain.count) take(&in_hand);
    jet_chain_free(&in_hand.chain);
    jet_chain_free(&in_box.chain);
}

static void check_slots(jet_span calls) {
    jet_slots t;
    uint64_t live[LIVE], dead[LIVE];
    size_t lives = 0, deads = 0;
    jet_slots_init(&t);
    while (calls.len) {
        unsigned call = cut_byte(&calls), which = cut_byte(&calls);
        if (call % 2 && lives < LIVE) {
            uint64_t key = jet_slots_add(&t, bytes + call);
            CHECK(key && jet_slots_get(&t, key) == bytes + call);
            for (size_t i = 0; i < lives; i++) CHECK(live[i] != key);
            for (size_t i = 0; i < deads; i++) CHECK(dead[i] != key);
            live[lives++] = key;
        } else if (lives) {
            uint64_t key = live[which % lives];
            live[which % lives] = live[lives - 1];
            lives--;
            CHECK(jet_slots_remove(&t, key) != NULL && jet_slots_remove(&t, key) == NULL);
            if (deads < LIVE) dead[deads++] = key;
        }
        for (size_t i = 0; i < deads; i++) CHECK(jet_slots_get(&t, dead[i]) == NULL);
        CHECK(t.count == lives);
    }
    jet_slots_free(&t);
}

static void check_content(const jet_buf *b, size_t in, size_t out) {
    CHECK(in == out || memcmp(jet_buf_ptr(b), bytes + out, in - out) == 0);
}

/* Each byte is compared when it leaves, or at the end. */
static void check_buffer(jet_span calls) {
    jet_buf b;
    size_t in = 0, out = 0;
    jet_buf_init(&b);
    while (calls.len) {
        size_t n = cut_byte(&calls) * (size_t)(1 + cut_byte(&calls) % 20);
        if (n % 2 == 0 && in + n < sizeof bytes) {
            CHECK(jet_buf_append(&b, bytes + in, n) == JET_OK);
            in += n;
        } else if (n <= jet_buf_len(&b)) {
            CHECK(n == 0 || memcmp(jet_buf_ptr(&b), bytes + out, n) == 0);
            jet_buf_consume(&b, n);
            out += n;
        } else if (n % 7 == 0) {
            check_content(&b, in, out);
            jet_buf_clear(&b, n);
            out = in;
        }
        CHECK(jet_buf_len(&b) == in - out && b.start <= b.end && b.end <= b.cap);
    }
    check_content(&b, in, out);
    jet_buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    jet_span calls = jet_span_of(data, size < 256 ? size : 256);
    if (bytes[1] == 0)
        for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 31 + (i >> 8));
    check_chains(calls);
    check_slots(calls);
    check_buffer(calls);
    return 0;
}
