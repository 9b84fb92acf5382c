/* jet_columns - a chain of JetStream messages as columns in the Arrow layout.
 *
 * Two passes: measure how much room each column takes, then fill buffers that the caller made.
 * Messages with an inline status (they carry no data) are left out of both passes.
 *
 * Subject, headers and metadata come from what a consumer delivered (the metadata stand in the
 * reply), or, for messages that a direct get brought, from the lines the server added. */
#ifndef JET_COLUMNS_H
#define JET_COLUMNS_H

#include "jet_segment.h"
#include "jet_types.h"

typedef struct jet_columns_size {
    size_t rows;
    size_t subject_bytes; /* as valid UTF-8 */
    size_t data_bytes;
    size_t reply_bytes; /* as valid UTF-8 */
    size_t header_rows; /* rows that have a header block */
    size_t header_keys; /* distinct names, summed over rows */
    size_t header_values;
    size_t key_bytes; /* as valid UTF-8 */
    size_t value_bytes;
} jet_columns_size;

/* The kind of the messages, and the form of what is in them. */
typedef struct jet_columns_kind {
    int text;   /* header values as valid UTF-8 instead of raw bytes */
    int micros; /* times in microseconds instead of nanoseconds */
    int stored; /* a direct get brought the messages: no reply, no numbers of a consumer */
} jet_columns_kind;

/* Buffers, owned by the caller; a NULL pointer leaves that column out. Offsets have one entry more
 * than values. Bitmaps are zeroed by the caller. */
typedef struct jet_columns {
    int32_t *subject_offsets;
    uint8_t *subject;
    int32_t *data_offsets;
    uint8_t *data;
    int32_t *reply_offsets;
    uint8_t *reply;
    uint8_t *header_valid;   /* bit per row */
    int32_t *header_offsets; /* row -> keys */
    int32_t *key_offsets;    /* key -> bytes */
    uint8_t *key;
    int32_t *list_offsets;  /* key -> values */
    int32_t *value_offsets; /* value -> bytes */
    uint8_t *value;
    uint8_t *metadata_valid; /* bit per row, shared by the five columns below */
    uint64_t *stream_seq;
    uint64_t *consumer_seq;
    uint64_t *num_delivered;
    uint64_t *num_pending;
    int64_t *timestamp;
    size_t metadata_rows; /* filled too: rows that have metadata (0 when no metadata column was
                             asked for, except for stored messages) */
} jet_columns;

/* Add what the chain needs to `size` (zero it first). `headers` 0 skips them. JET_ERR_MEMORY when
 * there is none for the lines of a large header block. */
jet_status jet_columns_measure(const jet_chain *c, jet_columns_kind kind, int headers,
                               jet_columns_size *size);
/* Fill the buffers. The chain must be the measured one, unchanged, and of the same kind. On
 * JET_ERR_MEMORY they are filled in part, and of no use. */
jet_status jet_columns_fill(const jet_chain *c, jet_columns_kind kind, jet_columns *out);

#endif
