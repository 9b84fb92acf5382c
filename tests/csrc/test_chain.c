/* jet_segment and jet_columns: what is put in comes out, in order, charged exactly, as columns. */
#include "check.h"

static uint8_t bytes[1 << 20];

static jet_record record(size_t i, size_t size) {
    jet_record r = {jet_span_of(bytes + i % 7, 1 + i % 9), jet_span_of(bytes + i % 5, i % 4),
                    jet_span_of(bytes + i % 3, i % 6), jet_span_of(bytes + i % 11, size),
                    (int)(i % 2 ? 0 : 404)};
    return r;
}

static int equal(const jet_record *a, const jet_record *b) {
    return same(a->subject, b->subject) && same(a->reply, b->reply) && same(a->header, b->header) &&
           same(a->payload, b->payload) && a->status == b->status;
}

static int drop(jet_chain *c) {
    jet_record r;
    int more = jet_chain_peek(c, &r);
    jet_chain_drop(c, &r);
    return more;
}

static size_t size_of(size_t i) { return i % 101 == 0 ? 300000 : i * 37 % 900; }

/* Check that the chain holds the records first .. last - 1, by walking and by taking. */
static void holds(jet_chain *c, size_t first, size_t last, int take) {
    jet_chain_iter it;
    jet_record got;
    jet_chain_begin(c, &it);
    size_t statuses = 0;
    for (size_t i = first; i < last; i++) {
        jet_record want = record(i, size_of(i));
        CHECK(jet_chain_next(&it, &got) && equal(&got, &want));
        statuses += want.status != 0;
    }
    CHECK(c->statuses == statuses);
    CHECK(!jet_chain_next(&it, &got) && c->count == last - first);
    jet_record newest = record(last - 1, size_of(last - 1));
    CHECK(jet_chain_last(c, &got) && equal(&got, &newest));
    for (size_t i = first; take && i < last; i++) {
        jet_record want = record(i, size_of(i));
        CHECK(jet_chain_peek(c, &got) && equal(&got, &want));
        jet_chain_drop(c, &got);
    }
    /* An emptied chain holds no memory. */
    if (take) CHECK(c->count == 0 && c->bytes == 0 && !c->head && !jet_chain_peek(c, &got));
}

static void put(jet_chain *c, size_t first, size_t last) {
    for (size_t i = first; i < last; i++) {
        jet_record r = record(i, size_of(i));
        CHECK(jet_chain_append(c, &r) == JET_OK);
    }
}

static size_t waiting(const jet_pool *p) {
    size_t n = 0;
    for (size_t i = 0; i < JET_POOL_SLOTS; i++) n += p->slot[i] != NULL;
    return n;
}

/* Segments of full size go around between chains; there are never more than places for them. */
static void check_pool(void) {
    static jet_pool pool;
    jet_chain a, b;
    jet_record r = record(0, 250000);
    jet_chain_init(&a);
    jet_chain_init(&b);
    a.pool = &pool;
    for (size_t i = 0; i < 5; i++) CHECK(jet_chain_append(&a, &r) == JET_OK);
    const jet_segment *first = a.head;
    jet_chain_move(&b, &a);
    CHECK(a.pool == &pool && b.pool == &pool && waiting(&pool) == 0);
    for (size_t i = 0; i < 4; i++) CHECK(drop(&b));
    CHECK(waiting(&pool) == 4); /* each went back with its last record */
    jet_chain_free(&b);
    CHECK(waiting(&pool) == 5 && b.pool == &pool);
    CHECK(jet_chain_append(&a, &r) == JET_OK && a.head == first && waiting(&pool) == 4);
    fail_allocation(1);
    CHECK(jet_chain_append(&a, &r) == JET_OK && waiting(&pool) == 3); /* needs no memory */
    fail_allocation(0);
    jet_chain_free(&a);
    for (size_t i = 0; i < JET_POOL_SLOTS + 9; i++) CHECK(jet_chain_append(&a, &r) == JET_OK);
    jet_chain_free(&a);
    CHECK(waiting(&pool) == JET_POOL_SLOTS);
    put(&a, 1, 2); /* small ones do not take from it */
    CHECK(waiting(&pool) == JET_POOL_SLOTS);
    jet_chain_free(&a);
    /* A pool that was not used between two looks is emptied. */
    jet_pool_rest(&pool);
    CHECK(jet_chain_append(&a, &r) == JET_OK);
    jet_chain_free(&a);
    jet_pool_rest(&pool);
    CHECK(waiting(&pool) == JET_POOL_SLOTS);
    jet_pool_rest(&pool);
    CHECK(waiting(&pool) == 0);
}

static size_t segments_of(const jet_chain *c) {
    size_t n = 0;
    for (const jet_segment *s = c->head; s; s = s->next) n++;
    return n;
}

/* Smaller segments go around by their sizes: with as many waiting as before, nothing needs memory
 * from the system. A queue that had several begins with one like its last. */
static void check_small_ones(void) {
    static jet_pool pool;
    static const size_t counts[] = {1, 2, 3, 7, 40, 300};
    jet_record r = record(0, 200), large = record(0, 200000);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        jet_chain a, b;
        jet_chain_init(&a);
        jet_chain_init(&b);
        a.pool = &pool;
        for (size_t round = 0; round < 4; round++) {
            fail_allocation(round > 1);
            for (size_t n = 0; n < counts[i]; n++) CHECK(jet_chain_append(&a, &r) == JET_OK);
            fail_allocation(0);
            CHECK(a.head->cap == JET_SEGMENT_FIRST || round);
            CHECK(segments_of(&a) <= (round ? 2 : JET_POOL_SIZES));
            for (const jet_segment *s = a.head; s->next; s = s->next) CHECK(s->next->cap == 2 * s->cap);
            size_t before = pool.small_bytes;
            jet_chain_move(&b, &a);
            if (round % 2) jet_chain_free(&b);
            else while (drop(&b)) continue;
            CHECK(pool.small_bytes > before && waiting(&pool) == 0);
        }
    }
    /* What is nearly as large takes a full one that waits. */
    jet_chain c;
    jet_chain_init(&c);
    c.pool = &pool;
    CHECK(jet_chain_append(&c, &large) == JET_OK && c.tail->cap == JET_SEGMENT_MAX);
    jet_chain_free(&c);
    CHECK(waiting(&pool) == 1);
    large = record(0, JET_SEGMENT_MAX / 4 + 1);
    CHECK(jet_chain_append(&c, &large) == JET_OK && c.tail->cap == JET_SEGMENT_MAX);
    jet_chain_free(&c);
    /* There are never more than fit into the bound. */
    for (size_t n = 0; n < JET_POOL_BYTES / JET_SEGMENT_FIRST + 9; n++) {
        jet_chain b;
        jet_chain_init(&b);
        CHECK(jet_chain_append(&b, &r) == JET_OK); /* from the system */
        b.pool = &pool;
        jet_chain_free(&b);
    }
    CHECK(pool.small_bytes <= JET_POOL_BYTES);
    CHECK(pool.small_bytes > JET_POOL_BYTES - JET_SEGMENT_FIRST);
    jet_pool_rest(&pool);
    jet_pool_rest(&pool);
    CHECK(pool.small_bytes == 0 && waiting(&pool) == 0);
}

/* A large message is left in the memory that it was received in: the header and payload stay where
 * they are, and the shortest line has room for what stands before them. */
static void check_adopted(const char *line, size_t subject_at, size_t subject, size_t reply_at,
                          size_t reply, size_t header) {
    size_t n = strlen(line);
    jet_chain a;
    jet_buf buf;
    jet_record got;
    jet_chain_init(&a);
    jet_buf_init(&buf);
    put(&a, 0, 1); /* a neighbour before it */
    CHECK(jet_buf_append(&buf, line, n) == JET_OK);
    CHECK(jet_buf_append(&buf, bytes, 70000) == JET_OK && jet_buf_append(&buf, "\r\n", 2) == JET_OK);
    uint8_t *data = buf.data;
    jet_record r = {{data + subject_at, subject}, {data + reply_at, reply}, {data + n, header},
                    {data + n + header, 70000 - header}, 0};
    fail_allocation(1);
    CHECK(jet_chain_adopt(&a, &r, &buf) == JET_ERR_MEMORY && buf.data == data && a.count == 1);
    fail_allocation(0);
    CHECK(jet_chain_adopt(&a, &r, &buf) == JET_OK && buf.data == NULL && jet_buf_len(&buf) == 0);
    put(&a, 2, 3); /* and one behind it: no byte of the large one moves for that */
    CHECK(a.count == 3 && drop(&a) && jet_chain_peek(&a, &got));
    CHECK(same(got.subject, jet_span_of((const uint8_t *)line + subject_at, subject)));
    CHECK(same(got.reply, jet_span_of((const uint8_t *)line + reply_at, reply)));
    CHECK(got.header.ptr == data + n && got.payload.ptr == data + n + header);
    CHECK(same(got.header, jet_span_of(bytes, header)));
    CHECK(same(got.payload, jet_span_of(bytes + header, 70000 - header)));
    jet_chain_drop(&a, &got);
    holds(&a, 2, 3, 1);
}

void suite_chain(void) {
    jet_chain a, b;
    jet_record r, got;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 31);
    jet_chain_init(&a);
    jet_chain_init(&b);
    CHECK(!drop(&a) && !jet_chain_peek(&a, &got) && !jet_chain_last(&a, &got));
    put(&a, 0, 500);
    holds(&a, 0, 500, 1);
    put(&a, 500, 600); /* again, in the memory that is left */
    holds(&a, 500, 600, 0);

    /* Exact charge. */
    size_t charged = 0;
    for (size_t i = 500; i < 600; i++) {
        r = record(i, size_of(i));
        charged += jet_record_bytes(&r);
    }
    CHECK(a.bytes == charged);

    /* Moving: into an empty one, behind another, from an empty one. */
    jet_chain_move(&b, &a);
    CHECK(a.count == 0 && a.head == NULL);
    holds(&b, 500, 600, 0);
    put(&a, 600, 650);
    jet_chain_move(&b, &a);
    jet_chain_move(&b, &a);
    holds(&b, 500, 650, 0);
    put(&b, 650, 700); /* behind what was moved in */
    CHECK(drop(&b) && b.count == 199);
    put(&b, 700, 701);
    holds(&b, 501, 701, 1);
    jet_chain_move(&b, &a);
    put(&b, 0, 3);
    holds(&b, 0, 3, 1);

    /* What moves in from a chain that was read to its end adds nothing. */
    put(&b, 0, 3);
    put(&a, 5, 6);
    CHECK(drop(&a));
    jet_chain_move(&b, &a);
    holds(&b, 0, 3, 1);

    put(&a, 1, 3);
    jet_chain_free(&a);
    jet_chain_free(&a);

    /* Too long for its length field, or no memory: nothing changes. */
    r = record(1, 10);
    r.subject = jet_span_of(bytes, 65536);
    CHECK(jet_chain_append(&a, &r) == JET_ERR_SIZE && a.count == 0);
    r = record(1, 10);
    r.payload.len = (size_t)UINT32_MAX;
    CHECK(jet_chain_append(&a, &r) == JET_ERR_SIZE && a.count == 0);
    r = record(1, 10);
    fail_allocation(1);
    CHECK(jet_chain_append(&a, &r) == JET_ERR_MEMORY && a.count == 0 && a.bytes == 0);
    fail_allocation(0);
    put(&a, 1, 20);
    fail_allocation(1);
    r = record(0, 250000);
    CHECK(jet_chain_append(&a, &r) == JET_ERR_MEMORY);
    holds(&a, 1, 20, 1);
    jet_chain_free(&a);
    jet_chain_free(&b);
    check_pool();
    check_small_ones();
    check_adopted("MSG s 1 70000\r\n", 4, 1, 0, 0, 0);
    check_adopted("MSG a.long.subject 7 an.answer 70000\r\n", 4, 14, 21, 9, 0);
    check_adopted("HMSG s 1 40 70000\r\n", 5, 1, 0, 0, 40);
    check_adopted("HMSG s 1 r 40 70000\r\n", 5, 1, 9, 1, 40);
}

static void add(jet_chain *c, jet_span subject, jet_span reply, jet_span header, jet_span payload,
                int status) {
    jet_record r = {subject, reply, header, payload, status};
    CHECK(jet_chain_append(c, &r) == JET_OK);
}

/* Messages of a direct get: their columns come from the server's lines. */
static void check_stored_columns(void) {
    const jet_columns_kind kind = {.stored = 1};
    jet_chain c;
    jet_columns_size size;
    jet_columns out;
    uint64_t numbers[5 * 2] = {0};
    uint8_t valid = 0, subject[2], key[1], value[1];
    int32_t subject_offsets[3], reply_offsets[3], header_offsets[3], key_offsets[2], list_offsets[2],
        value_offsets[2];
    memset(&size, 0, sizeof size);
    memset(&out, 0, sizeof out);
    jet_chain_init(&c);
    add(&c, S("_INBOX.1"), S("x"),
        S("NATS/1.0\r\nK: v\r\nNats-Stream: S\r\nNats-Subject: ab\r\nNats-Sequence: 12\r\n"
          "Nats-Time-Stamp: 1970-01-01T00:00:01Z\r\nNats-Num-Pending: 3\r\n"
          "Nats-Last-Sequence: 9\r\n\r\n"), S(""), 0);
    add(&c, S(""), S("y"), S(""), S(""), 0);
    jet_columns_measure(&c, kind, 1, &size);
    CHECK(size.rows == 2 && size.reply_bytes == 0);
    CHECK(size.subject_bytes == 2 && size.header_rows == 1 && size.header_values == 1);

    out.subject_offsets = subject_offsets, out.subject = subject;
    out.reply_offsets = reply_offsets;
    uint8_t header_valid = 0;
    out.header_valid = &header_valid, out.header_offsets = header_offsets;
    out.key_offsets = key_offsets, out.key = key, out.list_offsets = list_offsets;
    out.value_offsets = value_offsets, out.value = value;
    out.metadata_valid = &valid;
    out.stream_seq = numbers, out.consumer_seq = numbers + 2, out.num_delivered = numbers + 4;
    out.num_pending = numbers + 6, out.timestamp = (int64_t *)(numbers + 8);
    jet_columns_fill(&c, kind, &out);
    CHECK(out.metadata_rows == 1);
    CHECK(memcmp(subject, "ab", 2) == 0 && subject_offsets[2] == 2 && reply_offsets[2] == 0);
    CHECK(key[0] == 'K' && value[0] == 'v' && header_valid == 1 && valid == 1);
    CHECK(numbers[0] == 12 && numbers[6] == 3 && out.timestamp[0] == 1000000000);
    CHECK(numbers[1] == 0 && out.timestamp[1] == 0);
    jet_chain_free(&c);
}

/* Lines of one name are linked, in whatever order and however many there are. */
static void lines_of(size_t count, size_t names) {
    jet_lines l;
    char *text = malloc(count * 16);
    size_t n = 0, first = 0, linked = 0;
    for (size_t i = 0; i < count; i++)
        n += (size_t)sprintf(text + n, "n%d:%d\r\n", (int)(i * 7 % names), (int)i);
    jet_span block = fenced(jet_span_of((uint8_t *)text, n));
    jet_lines_init(&l);
    CHECK(jet_lines_read(&l, block) == JET_OK && l.count == count);
    for (size_t i = 0; i < count; i++) {
        const jet_line *next = l.line[i].next;
        first += !l.line[i].repeats;
        linked += next != NULL;
        if (next) CHECK(next == &l.line[i + names] && same(next->name, l.line[i].name));
        CHECK(l.line[i].repeats == (i >= names));
    }
    CHECK(first == (count < names ? count : names) && linked == count - first);
    /* Whichever allocation fails: no lines, and the next block is read as if nothing had been. */
    for (int nth = 1; nth < 12 && count > JET_LINES_FEW; nth++) {
        jet_lines_free(&l);
        fail_allocation(nth);
        jet_status status = jet_lines_read(&l, block);
        fail_allocation(0);
        CHECK(status == (l.count ? JET_OK : JET_ERR_MEMORY));
        CHECK(jet_lines_read(&l, block) == JET_OK && l.count == count && l.line[0].next);
    }
    jet_lines_free(&l);
    unfence(block);
    free(text);
}

static void columns_without_memory(void) {
    const jet_columns_kind kind = {.text = 1};
    jet_columns_size size;
    jet_columns out;
    jet_chain c;
    char text[2000];
    size_t n = 0;
    for (int i = 0; i < 100; i++) n += (size_t)sprintf(text + n, "n:%d\r\n", i);
    memset(&size, 0, sizeof size);
    memset(&out, 0, sizeof out);
    jet_chain_init(&c);
    add(&c, S("a"), S(""), jet_span_of((uint8_t *)text, n), S("x"), 0);
    fail_allocation(1);
    CHECK(jet_columns_measure(&c, kind, 1, &size) == JET_ERR_MEMORY);
    fail_allocation(1);
    uint8_t valid = 0;
    int32_t offsets[4][2];
    out.header_valid = &valid;
    out.header_offsets = offsets[0], out.key_offsets = offsets[1];
    out.list_offsets = offsets[2], out.value_offsets = offsets[3];
    CHECK(jet_columns_fill(&c, kind, &out) == JET_ERR_MEMORY);
    fail_allocation(0);
    memset(&size, 0, sizeof size);
    CHECK(jet_columns_measure(&c, kind, 1, &size) == JET_OK);
    CHECK(size.header_keys == 1 && size.header_values == 100);
    jet_chain_free(&c);
}

void suite_lines(void) {
    lines_of(1, 1);
    lines_of(16, 5);
    lines_of(17, 5);
    lines_of(64, 60);
    lines_of(5000, 300);
    columns_without_memory();
}

void suite_columns(void) {
    const jet_columns_kind kind = {.text = 1};
    jet_chain c;
    jet_columns_size size;
    memset(&size, 0, sizeof size);
    jet_chain_init(&c);
    add(&c, S("a"), S("$JS.ACK.S.C.1.10.3.1795229586547204964.7"), S("NATS/1.0\r\nK: 1\r\nJ: x\r\nK: \xFF\r\nbad\r\n\r\n"),
        S("one"), 0);
    add(&c, S("skipped"), S(""), S("NATS/1.0 404\r\n\r\n"), S(""), 404);
    add(&c, S("b\xFF"), S("_INBOX.1"), S(""), S(""), 0);
    add(&c, S("c"), S(""), S("NATS/1.0\r\n\r\n"), S("three"), 0);

    jet_columns_measure(&c, kind, 1, &size);
    CHECK(size.rows == 3 && size.subject_bytes == 1 + 4 + 1 && size.data_bytes == 8);
    CHECK(size.header_rows == 2 && size.header_keys == 2 && size.header_values == 3);
    CHECK(size.key_bytes == 2 && size.value_bytes == 1 + 1 + 3);

    /* Buffers of exactly the measured size: the sanitizer sees one byte too many. */
    jet_columns out;
    memset(&out, 0, sizeof out);
    out.subject_offsets = malloc(4 * sizeof(int32_t));
    out.subject = malloc(size.subject_bytes);
    out.data_offsets = malloc(4 * sizeof(int32_t));
    out.data = malloc(size.data_bytes);
    out.header_valid = calloc(1, 1);
    out.header_offsets = malloc(4 * sizeof(int32_t));
    out.key_offsets = malloc((size.header_keys + 1) * sizeof(int32_t));
    out.key = malloc(size.key_bytes);
    out.list_offsets = malloc((size.header_keys + 1) * sizeof(int32_t));
    out.value_offsets = malloc((size.header_values + 1) * sizeof(int32_t));
    out.value = malloc(size.value_bytes);
    out.metadata_valid = calloc(1, 1);
    uint64_t *numbers = malloc(5 * 3 * sizeof *numbers);
    out.stream_seq = numbers;
    out.consumer_seq = numbers + 3;
    out.num_delivered = numbers + 6;
    out.num_pending = numbers + 9;
    out.timestamp = (int64_t *)(numbers + 12);
    jet_columns_fill(&c, kind, &out);

    CHECK(memcmp(out.subject, "ab\xEF\xBF\xBD" "c", 6) == 0 && out.subject_offsets[3] == 6);
    CHECK(memcmp(out.data, "onethree", 8) == 0 && out.data_offsets[2] == 3);
    CHECK(out.header_valid[0] == 5); /* rows 0 and 2 */
    CHECK(out.header_offsets[1] == 2 && out.header_offsets[2] == 2 && out.header_offsets[3] == 2);
    CHECK(memcmp(out.key, "KJ", 2) == 0 && out.list_offsets[1] == 2 && out.list_offsets[2] == 3);
    CHECK(memcmp(out.value, "1\xEF\xBF\xBDx", 5) == 0);
    CHECK(out.metadata_rows == 1);
    CHECK(out.metadata_valid[0] == 1 && out.stream_seq[0] == 10 && out.stream_seq[1] == 0);
    CHECK(out.consumer_seq[0] == 3 && out.num_delivered[0] == 1 && out.num_pending[0] == 7);
    CHECK(out.timestamp[0] == 1795229586547204964);

    /* What is less than a microsecond is cut off. */
    jet_columns_fill(&c, (jet_columns_kind){.text = 1, .micros = 1}, &out);
    CHECK(out.timestamp[0] == 1795229586547204);

    /* Metadata that were not asked for are not read. */
    jet_columns data;
    memset(&data, 0, sizeof data);
    data.data_offsets = out.data_offsets;
    data.data = out.data;
    jet_columns_fill(&c, kind, &data);
    CHECK(data.metadata_rows == 0 && memcmp(data.data, "onethree", 8) == 0);

    free(out.subject_offsets);
    free(out.subject);
    free(out.data_offsets);
    free(out.data);
    free(out.header_valid);
    free(out.header_offsets);
    free(out.key_offsets);
    free(out.key);
    free(out.list_offsets);
    free(out.value_offsets);
    free(out.value);
    free(out.metadata_valid);
    free(numbers);
    jet_chain_free(&c);
    check_stored_columns();
}
