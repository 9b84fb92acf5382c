/* Invariants of jet_columns, for any stream of received messages:
 *
 *   - filling writes exactly what measuring announced (each buffer has exactly that size);
 *   - offsets begin at 0, never fall, and end at the size of what they point into;
 *   - subjects, replies, names and (when asked for) values are valid UTF-8;
 *   - stored messages have no reply;
 *   - messages with an inline status are in no column.
 */
#include "fuzz.h"

static jet_span columns[19];
static size_t made;

/* A buffer of exactly n values. */
static void *column(size_t n, size_t size) {
    uint8_t *p = fence(n * size);
    memset(p, 0, n * size);
    columns[made++] = jet_span_of(p, n * size);
    return p;
}

static void check_offsets(const int32_t *offsets, size_t count, size_t last) {
    CHECK(offsets[0] == 0 && (size_t)offsets[count] == last);
    for (size_t i = 0; i < count; i++) CHECK(offsets[i] <= offsets[i + 1]);
}

static int is_text(const uint8_t *bytes, size_t n) {
    return jet_utf8_lossy_len(jet_span_of(bytes, n)) == n;
}

static void check_columns(const jet_chain *c, jet_columns_kind kind, size_t rows) {
    jet_columns_size s;
    jet_columns out;
    memset(&s, 0, sizeof s);
    memset(&out, 0, sizeof out);
    made = 0;
    jet_columns_measure(c, kind, 1, &s);
    CHECK(s.rows == rows && s.header_rows <= s.rows);
    CHECK(s.header_keys <= s.header_values);
    out.subject_offsets = column(s.rows + 1, 4);
    out.subject = column(s.subject_bytes, 1);
    out.data_offsets = column(s.rows + 1, 4);
    out.data = column(s.data_bytes, 1);
    out.reply_offsets = column(s.rows + 1, 4);
    out.reply = column(s.reply_bytes, 1);
    out.header_valid = column((s.rows + 7) / 8, 1);
    out.header_offsets = column(s.rows + 1, 4);
    out.key_offsets = column(s.header_keys + 1, 4);
    out.key = column(s.key_bytes, 1);
    out.list_offsets = column(s.header_keys + 1, 4);
    out.value_offsets = column(s.header_values + 1, 4);
    out.value = column(s.value_bytes, 1);
    out.metadata_valid = column((s.rows + 7) / 8, 1);
    out.stream_seq = column(s.rows, 8);
    out.consumer_seq = column(s.rows, 8);
    out.num_delivered = column(s.rows, 8);
    out.num_pending = column(s.rows, 8);
    out.timestamp = column(s.rows, 8);
    jet_columns_fill(c, kind, &out);
    check_offsets(out.subject_offsets, s.rows, s.subject_bytes);
    check_offsets(out.data_offsets, s.rows, s.data_bytes);
    check_offsets(out.reply_offsets, s.rows, s.reply_bytes);
    check_offsets(out.header_offsets, s.rows, s.header_keys);
    check_offsets(out.key_offsets, s.header_keys, s.key_bytes);
    check_offsets(out.list_offsets, s.header_keys, s.header_values);
    check_offsets(out.value_offsets, s.header_values, s.value_bytes);
    CHECK(is_text(out.subject, s.subject_bytes) && is_text(out.reply, s.reply_bytes));
    CHECK(is_text(out.key, s.key_bytes) && (!kind.text || is_text(out.value, s.value_bytes)));
    CHECK(!kind.stored || s.reply_bytes == 0);
    size_t valid = 0;
    for (size_t i = 0; i < s.rows; i++) valid += out.metadata_valid[i / 8] >> i % 8 & 1;
    CHECK(valid == out.metadata_rows && valid <= s.rows);
    for (size_t i = 0; i < made; i++) unfence(columns[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    jet_parser p;
    jet_frame f;
    jet_chain c;
    size_t used, rows = 0;
    jet_span rest = jet_span_of(data, size);
    jet_parser_init(&p, 1 << 16);
    jet_chain_init(&c);
    while (jet_parser_next(&p, rest, &f, &used) == 1) {
        cut(&rest, used);
        if (f.op != JET_OP_MSG) continue;
        jet_record r = {f.subject, f.reply, f.header, f.payload, f.status};
        CHECK(jet_chain_append(&c, &r) == JET_OK);
        rows += f.status == 0;
    }
    if (c.count) {
        for (int kind = 0; kind < 4; kind++)
            check_columns(&c, (jet_columns_kind){.text = kind & 1, .stored = kind >> 1}, rows);
    }
    jet_chain_free(&c);
    return 0;
}
