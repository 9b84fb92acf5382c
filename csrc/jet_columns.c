#include "jet_columns.h"

#include <string.h>

#include "jet_jsack.h"
#include "jet_lines.h"
#include "jet_scan.h"
#include "jet_stored.h"
#include "jet_utf8.h"

/* The next message that has a row. Returns 0 at the end. */
static int next_row(jet_chain_iter *it, jet_record *r) {
    do
        if (!jet_chain_next(it, r)) return 0;
    while (r->status);
    return 1;
}

/* Restore the published message from one of a direct get. Returns 0 when the server's lines are
 * missing; `metadata` is zero then. */
static int read_stored(jet_record *r, jet_jsack *metadata) {
    jet_stored stored;
    memset(metadata, 0, sizeof *metadata);
    r->reply.len = 0;
    if (!jet_stored_parse(r->header, &stored)) return 0;
    r->subject = stored.subject;
    r->header = stored.published;
    metadata->stream_seq = stored.seq;
    metadata->timestamp_ns = stored.timestamp_ns;
    metadata->num_pending = stored.num_pending;
    return 1;
}

static int read_delivered(const jet_record *r, jet_jsack *metadata) {
    if (jet_jsack_parse(r->reply, metadata) == JET_OK) return 1;
    memset(metadata, 0, sizeof *metadata);
    return 0;
}

static void measure_headers(const jet_lines *l, int text, jet_columns_size *size) {
    for (size_t i = 0; i < l->count; i++) {
        const jet_line *line = &l->line[i];
        if (!line->repeats) {
            size->header_keys++;
            size->key_bytes += jet_utf8_lossy_len(line->name);
        }
        size->header_values++;
        size->value_bytes += text ? jet_utf8_lossy_len(line->value) : line->value.len;
    }
}

jet_status jet_columns_measure(const jet_chain *c, jet_columns_kind kind, int headers,
                               jet_columns_size *size) {
    jet_chain_iter it;
    jet_record r;
    jet_jsack metadata;
    jet_lines lines;
    jet_status status = JET_OK;
    jet_lines_init(&lines);
    jet_chain_begin(c, &it);
    while (status == JET_OK && next_row(&it, &r)) {
        if (kind.stored) read_stored(&r, &metadata);
        size->rows++;
        size->subject_bytes += jet_utf8_lossy_len(r.subject);
        size->data_bytes += r.payload.len;
        size->reply_bytes += jet_utf8_lossy_len(r.reply);
        if (headers && r.header.len) {
            size->header_rows++;
            status = jet_lines_read(&lines, r.header);
            measure_headers(&lines, kind.text, size);
        }
    }
    jet_lines_free(&lines);
    return status;
}

static void set_bit(uint8_t *bits, size_t i) { bits[i / 8] |= (uint8_t)(1u << (i % 8)); }

typedef struct position {
    size_t subject, data, reply, keys, key, values, value;
} position;

static void fill_value(jet_span value, int text, jet_columns *out, position *at) {
    if (text) at->value += jet_utf8_lossy_copy(value, out->value + at->value);
    else if (value.len) memcpy(out->value + at->value, value.ptr, value.len), at->value += value.len;
    out->value_offsets[++at->values] = (int32_t)at->value;
}

/* Names repeat within a block; a map key may not. A name counts at its first occurrence, and its
 * values are gathered there. */
static void fill_headers(const jet_lines *l, int text, jet_columns *out, position *at) {
    for (size_t i = 0; i < l->count; i++) {
        if (l->line[i].repeats) continue;
        at->key += jet_utf8_lossy_copy(l->line[i].name, out->key + at->key);
        for (const jet_line *one = &l->line[i]; one; one = one->next)
            fill_value(one->value, text, out, at);
        at->keys++;
        out->key_offsets[at->keys] = (int32_t)at->key;
        out->list_offsets[at->keys] = (int32_t)at->values;
    }
}

static void fill_metadata(const jet_jsack *metadata, int micros, size_t row, jet_columns *out) {
    out->stream_seq[row] = metadata->stream_seq;
    out->consumer_seq[row] = metadata->consumer_seq;
    out->num_delivered[row] = metadata->num_delivered;
    out->num_pending[row] = metadata->num_pending;
    out->timestamp[row] = micros ? metadata->timestamp_ns / 1000 : metadata->timestamp_ns;
}

jet_status jet_columns_fill(const jet_chain *c, jet_columns_kind kind, jet_columns *out) {
    jet_chain_iter it;
    jet_record r;
    jet_jsack metadata;
    int has_metadata = 0;
    jet_lines lines;
    jet_status status = JET_OK;
    position at;
    size_t row = 0;
    memset(&at, 0, sizeof at);
    if (out->subject_offsets) out->subject_offsets[0] = 0;
    if (out->data_offsets) out->data_offsets[0] = 0;
    if (out->reply_offsets) out->reply_offsets[0] = 0;
    if (out->header_offsets)
        out->header_offsets[0] = out->key_offsets[0] = out->list_offsets[0] = out->value_offsets[0] = 0;

    jet_lines_init(&lines);
    jet_chain_begin(c, &it);
    out->metadata_rows = 0;
    while (status == JET_OK && next_row(&it, &r)) {
        if (kind.stored) has_metadata = read_stored(&r, &metadata);
        else if (out->metadata_valid) has_metadata = read_delivered(&r, &metadata);
        out->metadata_rows += (size_t)has_metadata;
        if (out->subject_offsets) {
            at.subject += jet_utf8_lossy_copy(r.subject, out->subject + at.subject);
            out->subject_offsets[row + 1] = (int32_t)at.subject;
        }
        if (out->data_offsets) {
            if (r.payload.len) memcpy(out->data + at.data, r.payload.ptr, r.payload.len);
            at.data += r.payload.len;
            out->data_offsets[row + 1] = (int32_t)at.data;
        }
        if (out->reply_offsets) {
            at.reply += jet_utf8_lossy_copy(r.reply, out->reply + at.reply);
            out->reply_offsets[row + 1] = (int32_t)at.reply;
        }
        if (out->header_offsets) {
            if (r.header.len) {
                set_bit(out->header_valid, row);
                status = jet_lines_read(&lines, r.header);
                fill_headers(&lines, kind.text, out, &at);
            }
            out->header_offsets[row + 1] = (int32_t)at.keys;
        }
        if (out->metadata_valid) {
            if (has_metadata) set_bit(out->metadata_valid, row);
            fill_metadata(&metadata, kind.micros, row, out);
        }
        row++;
    }
    jet_lines_free(&lines);
    return status;
}
