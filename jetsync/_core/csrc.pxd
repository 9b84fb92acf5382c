# The only file that names functions of csrc/.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "jet.h" nogil:
    ctypedef struct jet_span:
        const uint8_t *ptr
        size_t len

    ctypedef enum jet_status:
        JET_OK
        JET_ERR_MEMORY
        JET_ERR_OP
        JET_ERR_ARGS
        JET_ERR_SIZE
        JET_ERR_LINE
        JET_ERR_CRLF
        JET_ERR_SUBJECT
        JET_ERR_HEADER
        JET_ERR_TOKENS

    ctypedef enum jet_op:
        JET_OP_MSG
        JET_OP_PING
        JET_OP_PONG
        JET_OP_OK
        JET_OP_ERR
        JET_OP_INFO

    ctypedef struct jet_frame:
        jet_op op
        int status
        uint64_t sid
        jet_span subject
        jet_span reply
        jet_span header
        jet_span payload

    ctypedef struct jet_buf:
        pass

    size_t jet_buf_len(const jet_buf *b)
    const uint8_t *jet_buf_ptr(const jet_buf *b)
    void jet_buf_init(jet_buf *b)
    void jet_buf_free(jet_buf *b)
    uint8_t *jet_buf_reserve(jet_buf *b, size_t n)
    void jet_buf_commit(jet_buf *b, size_t n)
    void jet_buf_consume(jet_buf *b, size_t n)
    void jet_buf_clear(jet_buf *b, size_t keep)
    jet_status jet_buf_append(jet_buf *b, const void *bytes, size_t n)

    ctypedef struct jet_parser:
        size_t need
        size_t max_size

    void jet_parser_init(jet_parser *p, size_t max_size)
    int jet_parser_next(jet_parser *p, jet_span bytes, jet_frame *frame, size_t *consumed)

    int jet_header_status(jet_span block)
    jet_span jet_header_description(jet_span block)
    ctypedef struct jet_header_iter:
        pass

    void jet_header_begin(jet_header_iter *it, jet_span block)
    int jet_header_next(jet_header_iter *it, jet_span *name, jet_span *value)
    int jet_header_find(jet_span block, jet_span name, jet_span *value)
    jet_status jet_header_append(jet_buf *out, jet_span name, jet_span value)

    int jet_subject_is_safe(jet_span s)
    int jet_subject_is_publishable(jet_span s)
    int jet_subject_is_subscribable(jet_span s)

    jet_status jet_encode_pub(jet_buf *out, jet_span subject, jet_span reply, jet_span header,
                              jet_span payload, size_t max_line)
    jet_status jet_encode_asking(jet_buf *out, jet_span subject, jet_span reply, jet_span header,
                                 jet_span payload, size_t max_line)
    jet_status jet_encode_answer(jet_buf *out, jet_span subject, jet_span reply, jet_span payload,
                                 size_t max_line)
    jet_status jet_encode_sub(jet_buf *out, jet_span subject, jet_span queue, uint64_t sid,
                              size_t max_line)
    jet_status jet_encode_unsub(jet_buf *out, uint64_t sid, uint64_t max)
    jet_status jet_encode_ping(jet_buf *out)
    jet_status jet_encode_pong(jet_buf *out)
    size_t jet_encode_sift(jet_buf *out, size_t max_payload, bint lines)
    size_t jet_encode_retract(jet_buf *out, jet_span reply, size_t first)
    size_t jet_encode_u64(uint8_t *to, uint64_t value)

    ctypedef struct jet_jsack:
        jet_span domain
        jet_span account_hash
        jet_span stream
        jet_span consumer
        uint64_t num_delivered
        uint64_t stream_seq
        uint64_t consumer_seq
        int64_t timestamp_ns
        uint64_t num_pending

    jet_status jet_jsack_parse(jet_span reply, jet_jsack *out)
    jet_status jet_jsack_sequences(jet_span reply, uint64_t *stream_seq, uint64_t *consumer_seq)

    ctypedef struct jet_puback:
        uint64_t seq
        int duplicate
        int further
        jet_span stream

    ctypedef struct jet_puback_form:
        pass

    int jet_puback_parse(jet_span json, jet_puback *out)
    int jet_puback_next(jet_puback_form *form, jet_span json, jet_puback *out)

    ctypedef struct jet_record:
        jet_span subject
        jet_span reply
        jet_span header
        jet_span payload
        int status

    ctypedef struct jet_pool:
        pass

    ctypedef struct jet_chain:
        jet_pool *pool
        size_t count
        size_t bytes
        size_t statuses

    ctypedef struct jet_segment:
        pass

    ctypedef struct jet_chain_iter:
        const jet_segment *segment

    void jet_chain_init(jet_chain *c)
    void jet_chain_free(jet_chain *c)
    jet_status jet_chain_append(jet_chain *c, const jet_record *r)
    int jet_chain_peek(const jet_chain *c, jet_record *out)
    int jet_chain_last(const jet_chain *c, jet_record *out)
    void jet_chain_drop(jet_chain *c, const jet_record *r)
    void jet_chain_move(jet_chain *to, jet_chain *from_)
    size_t jet_record_bytes(const jet_record *r)
    void jet_chain_begin(const jet_chain *c, jet_chain_iter *it)
    int jet_chain_next(jet_chain_iter *it, jet_record *out)

    ctypedef struct jet_token_key:
        uint64_t word[2]

    enum:
        JET_MAX_CONTROL_LINE
        JET_TOKEN_MAX
        JET_TOKEN_PROOF

    size_t jet_token_write(const jet_token_key *key, uint64_t number, uint8_t *out)
    size_t jet_token_read(const jet_token_key *key, jet_span text, uint64_t *number)

    ctypedef struct jet_slots:
        uint32_t count

    void jet_slots_init(jet_slots *t)
    void jet_slots_free(jet_slots *t)
    uint64_t jet_slots_add(jet_slots *t, void *value)
    void *jet_slots_get(const jet_slots *t, uint64_t key)
    void *jet_slots_remove(jet_slots *t, uint64_t key)

    ctypedef struct jet_columns_size:
        size_t rows
        size_t subject_bytes
        size_t data_bytes
        size_t reply_bytes
        size_t header_rows
        size_t header_keys
        size_t header_values
        size_t key_bytes
        size_t value_bytes

    ctypedef struct jet_columns:
        int32_t *subject_offsets
        uint8_t *subject
        int32_t *data_offsets
        uint8_t *data
        int32_t *reply_offsets
        uint8_t *reply
        uint8_t *header_valid
        int32_t *header_offsets
        int32_t *key_offsets
        uint8_t *key
        int32_t *list_offsets
        int32_t *value_offsets
        uint8_t *value
        uint8_t *metadata_valid
        uint64_t *stream_seq
        uint64_t *consumer_seq
        uint64_t *num_delivered
        uint64_t *num_pending
        int64_t *timestamp
        size_t metadata_rows

    ctypedef struct jet_columns_kind:
        int text
        int micros
        int stored

    jet_status jet_columns_measure(const jet_chain *c, jet_columns_kind kind, int headers,
                             jet_columns_size *size)
    jet_status jet_columns_fill(const jet_chain *c, jet_columns_kind kind, jet_columns *out)

    ctypedef struct jet_stored:
        jet_span stream
        jet_span subject
        uint64_t seq
        int64_t timestamp_ns
        uint64_t num_pending
        jet_span published
        jet_span lines

    int jet_stored_parse(jet_span block, jet_stored *out)

    ctypedef struct jet_blake2:
        pass

    void jet_blake2_init(jet_blake2 *s, size_t digest)
    void jet_blake2_add(jet_blake2 *s, jet_span bytes)
    void jet_blake2_end(jet_blake2 *s, uint8_t *digest)

    enum:
        JET_TALLY_KEY

    ctypedef struct jet_tally:
        pass

    void jet_tally_init(jet_tally *t, size_t limit)
    void jet_tally_free(jet_tally *t)
    jet_status jet_tally_add(jet_tally *t, const uint8_t *key, uint32_t *before)
    void jet_tally_clear(jet_tally *t)

    ctypedef struct jet_websocket_reader:
        unsigned char closed
        unsigned char control_len
        uint8_t control[125]
    ctypedef struct jet_websocket_part:
        jet_span bytes
        bint compressed
        bint final
    int JET_WEBSOCKET_RESERVED
    int JET_WEBSOCKET_OPCODE
    int JET_WEBSOCKET_MASKED
    int JET_WEBSOCKET_CONTROLS
    int JET_WEBSOCKET_ORDER
    int JET_WEBSOCKET_LENGTH
    int JET_WEBSOCKET_CODE
    unsigned jet_websocket_code(jet_span payload)


cdef extern from "jet_scan.h" nogil:
    size_t jet_scan_leading_u64(jet_span s, uint64_t *out)


cdef inline jet_span span_of(const void *ptr, size_t n) noexcept nogil:
    cdef jet_span s
    s.ptr = <const uint8_t *>ptr
    s.len = n
    return s


cdef inline jet_span span_of_bytes(bytes b) noexcept:
    """Borrow the content of a bytes object; empty for None. The caller keeps the object alive."""
    if b is None:
        return span_of(NULL, 0)
    return span_of(<const char *>b, len(b))


cdef inline bytes bytes_of(jet_span s):
    return (<const char *>s.ptr)[:s.len] if s.len else b""
