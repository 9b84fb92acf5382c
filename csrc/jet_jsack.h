/* jet_jsack - the tokens of a $JS.ACK reply subject (ADR-15), old and new form. */
#ifndef JET_JSACK_H
#define JET_JSACK_H

#include "jet_types.h"

typedef struct jet_jsack {
    jet_span domain;       /* empty when there is none (v1, or "_" in v2) */
    jet_span account_hash; /* empty in v1 */
    jet_span stream;
    jet_span consumer;
    uint64_t num_delivered;
    uint64_t stream_seq;
    uint64_t consumer_seq;
    int64_t timestamp_ns; /* nanoseconds since the epoch */
    uint64_t num_pending;
} jet_jsack;

/* Whether a reply subject is one of a consumer's delivery: it begins with "$JS.ACK.". */
int jet_jsack_is_reply(jet_span reply);

/* Nine tokens: v1. Eleven or more: v2, what comes after the eleventh is ignored. Anything else is
 * JET_ERR_TOKENS. Spans are borrowed from `reply`. */
jet_status jet_jsack_parse(jet_span reply, jet_jsack *out);

/* The same two numbers with less work: what stands behind them is only counted, not read. Every
 * subject that jet_jsack_parse takes is taken. */
jet_status jet_jsack_sequences(jet_span reply, uint64_t *stream_seq, uint64_t *consumer_seq);

#endif
