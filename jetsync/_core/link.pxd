# The C library csrc/link: the only file that names its functions. Contracts are in its headers.
from libc.stddef cimport ptrdiff_t, size_t
from libc.stdint cimport uint8_t, uint64_t

from jetsync._core.csrc cimport (
    jet_buf, jet_chain, jet_pool, jet_record, jet_span, jet_status, jet_token_key, jet_websocket_part,
    jet_websocket_reader,
)


cdef extern from "link_sync.h" nogil:
    ctypedef enum link_result:
        LINK_OK
        LINK_BUSY
        LINK_FULL
        LINK_OFFLINE
        LINK_CLOSED
        LINK_WOKEN
        LINK_TIMEOUT
        LINK_SIGNAL
        LINK_GONE

    # Counts and flags that others read without a lock; macros, for any unsigned type.
    uint64_t link_count "link_load"(const uint64_t *from_)
    size_t link_load(const size_t *from_)
    void link_store(size_t *to, size_t value)
    void link_add(uint64_t *to, uint64_t n)


cdef extern from "link_wakeup.h" nogil:
    ctypedef struct link_wakeup:
        pass
    ctypedef struct link_gate:
        link_wakeup wakeup

    double link_now()
    void link_wakeup_free(link_wakeup *w)
    link_result link_wakeup_sleep(link_wakeup *w, double deadline)


cdef extern from "link_keep.h" nogil:
    const double LINK_KEEP_LONGEST
    ctypedef struct link_keep:
        double kept

    bint link_keep_is_busy(const link_keep *k, double now)
    double link_keep_for(link_keep *k, double now)
    void link_keep_kept(link_keep *k, double seconds)
    void link_keep_returned(link_keep *k, double woke, double now, double kept_before,
                            double interval)


cdef extern from "link_turn.h" nogil:
    ctypedef struct link_waiter:
        link_wakeup wakeup
    ctypedef struct link_turn:
        pass

    void link_turn_init(link_turn *t)
    void link_turn_free(link_turn *t)
    void link_turn_reset(link_turn *t)
    bint link_turn_try(link_turn *t)
    bint link_turn_join(link_turn *t, link_waiter *w)
    bint link_turn_withdraw(link_turn *t, link_waiter *w)
    bint link_turn_is_lost(const link_turn *t, const link_waiter *w)
    void link_turn_leave(link_turn *t)


cdef extern from "link_group.h" nogil:
    ctypedef struct link_group:
        pass
    ctypedef struct link_carried:
        bint is_there
        jet_record record
        double since
    ctypedef enum link_due:
        LINK_DUE_QUEUE
        LINK_DUE_NONE
        LINK_DUE_SLEEP
        LINK_DUE_END
        LINK_DUE_BUSY


cdef extern from "link_queue.h" nogil:
    ctypedef struct link_queue:
        link_group *group
        void *owner
        const void *near[2]
        link_gate gate
        uint64_t sid
        link_turn take_turn
        jet_chain ready       # belongs to the holder of take_turn
        double ready_since
        size_t ready_messages # atomic
        uint64_t taken
    ctypedef enum link_found:
        LINK_FOUND
        LINK_NOTHING
        LINK_WAIT
        LINK_FIND_BUSY
    ctypedef enum link_rest:
        LINK_REST_BUSY
        LINK_RESTS
        LINK_REST_MORE
        LINK_REST_OVER
    ctypedef struct link_counts:
        size_t messages
        size_t bytes
        uint64_t received
        uint64_t dropped
        uint64_t max_messages
        double last_put
        uint64_t last_reads
        bint finished

    void link_queue_init(link_queue *q, jet_pool *pool, size_t limit_messages, size_t limit_bytes)
    void link_queue_absorb(link_queue *q)
    void link_queue_free(link_queue *q)
    void link_queue_reset(link_queue *q)
    link_found link_queue_find(link_queue *q, size_t least, bint patient, bint arm, bint may_wait)
    bint link_queue_leave(link_queue *q)
    size_t link_queue_missing(void *queue) noexcept
    void link_queue_join_group(link_queue *q, link_group *g, void *owner, bint has_it,
                               bint takes_carried)
    void link_queue_leave_group(link_queue *q)
    link_rest link_queue_rest(link_queue *q, bint goes_on, bint ends, bint may_wait)
    void link_queue_note_ready(link_queue *q)
    bint link_queue_wake(link_queue *q, bint may_wait)
    void link_queue_finish(link_queue *q)
    size_t link_queue_discard(link_queue *q)
    bint link_queue_stop_after(link_queue *q, uint64_t max_messages)
    bint link_queue_counts(link_queue *q, bint may_wait, link_counts *now)


cdef extern from "link_group.h" nogil:
    void link_group_init(link_group *g, size_t most)
    void link_group_free(link_group *g)
    void link_group_reset(link_group *g)
    bint link_group_add(link_group *g)
    void link_group_remove(link_group *g)
    bint link_group_enter(link_group *g)
    bint link_group_has_threads(link_group *g)
    size_t link_group_missing(void *group) noexcept
    link_due link_group_take(link_group *g, link_waiter *w, bint comes, bint sleeps,
                             link_queue **q, link_carried *carried, bint may_wait)


cdef extern from "link_pieces.h" nogil:
    int LINK_LARGE
    ctypedef struct link_share:
        pass

    link_share *link_share_new(uint8_t *data)
    bint link_share_end(link_share *s)


cdef extern from "link_outbound.h" nogil:
    ctypedef enum link_filtered:
        LINK_FILTER_BROKEN
        LINK_FILTER_DONE
        LINK_FILTER_MORE
        LINK_FILTER_LAST
    ctypedef link_filtered (*link_encode)(void *context, const uint8_t *bytes, size_t n,
                                          jet_buf *out) noexcept
    ctypedef struct link_outbound:
        uint64_t pings
        uint64_t pongs
        uint64_t links
        uint64_t msgs
        uint64_t bytes
        size_t high_water
        size_t offline_limit
        size_t max_line
    ctypedef enum link_kind:
        LINK_PUB
        LINK_REPLY
        LINK_FRAMES
    ctypedef struct link_put:
        link_kind kind
        jet_span subject
        jet_span reply
        jet_span header
        jet_span payload
        link_share *share
        uint64_t messages
        uint64_t link
        bint resend
        bint wake
        bint is_first

    void link_outbound_init(link_outbound *o, size_t high_water, size_t offline_limit)
    void link_outbound_free(link_outbound *o)
    void link_outbound_reset(link_outbound *o)
    int link_outbound_put(link_outbound *o, link_put *p, bint may_wait)
    void link_outbound_join(link_outbound *o, link_waiter *w, const link_put *p)
    int link_outbound_put_promised(link_outbound *o, link_put *p, link_waiter *w)
    void link_outbound_withdraw(link_outbound *o, link_waiter *w)
    bint link_outbound_is_lost(const link_outbound *o, const link_waiter *w)
    void link_outbound_pong(link_outbound *o)
    uint64_t link_outbound_ping(link_outbound *o, bint wake)
    int link_outbound_line(link_outbound *o, jet_span line)
    int link_outbound_offer(link_outbound *o, link_put *p)
    uint64_t link_outbound_link(link_outbound *o)
    uint64_t link_outbound_link_to_leave_on(link_outbound *o)
    void link_outbound_retract(link_outbound *o, jet_span reply)
    size_t link_outbound_pending(link_outbound *o)
    size_t link_outbound_waiting(link_outbound *o)
    size_t link_outbound_peek(link_outbound *o, uint8_t *to, size_t n)
    bint link_outbound_ask(link_outbound *o)
    size_t link_outbound_kept(link_outbound *o)
    bint link_outbound_holds(link_outbound *o)
    int link_outbound_begin_send(link_outbound *o)
    void link_outbound_send(link_outbound *o)
    void link_outbound_nudge(link_outbound *o)
    void link_outbound_pump(link_outbound *o)
    void link_outbound_expect(link_outbound *o)
    ptrdiff_t link_outbound_attach(link_outbound *o, int fd, jet_span first, size_t max_payload,
                                   link_encode encode, void *context, bint writer_only)
    void link_outbound_detach(link_outbound *o)
    void link_outbound_forget(link_outbound *o)
    void link_outbound_close(link_outbound *o)


cdef extern from "link_reader_turn.h" nogil:
    ctypedef struct link_reader_turn:
        pass

    bint link_reader_turn_is_taken(link_reader_turn *t)
    bint link_reader_turn_take(link_reader_turn *t, bint may_wait)


cdef extern from "link_inbound.h" nogil:
    ctypedef size_t (*link_missing)(void *whom) noexcept
    ctypedef link_filtered (*link_decode)(void *context, const uint8_t *bytes, size_t n,
                                          jet_buf *out) noexcept
    ctypedef struct link_inbound:
        link_reader_turn turn
        jet_token_key key
        jet_pool *pool
        link_decode decode
        void *context
        int why
        uint64_t messages
        uint64_t bytes
        uint64_t unmatched
        uint64_t reads
    ctypedef enum link_event:
        LINK_EVENT_NONE
        LINK_EVENT_INFO
        LINK_EVENT_ERR
        LINK_EVENT_PONG
        LINK_EVENT_SLOW
        LINK_EVENT_EOF
        LINK_EVENT_BAD
        LINK_EVENT_LAST
    int LINK_NOT_DECODED

    void link_inbound_init(link_inbound *i, link_outbound *outbound, size_t max_size)
    void link_inbound_free(link_inbound *i)
    void link_inbound_reset(link_inbound *i)
    uint64_t link_inbound_add(link_inbound *i, link_queue *q)
    void link_inbound_remove(link_inbound *i, uint64_t sid)
    bint link_inbound_add_reply(link_inbound *i, link_queue *q, bint may_wait, uint64_t *token)
    bint link_inbound_remove_reply(link_inbound *i, uint64_t token, bint may_wait)
    void link_inbound_route_replies(link_inbound *i, jet_span prefix, uint64_t sid)
    void link_inbound_begin(link_inbound *i, size_t max_size)
    jet_status link_inbound_feed(link_inbound *i, jet_span bytes)
    link_event link_inbound_parse(link_inbound *i, jet_span *text)
    link_event link_inbound_pump(link_inbound *i, int fd, jet_span *text)
    bint link_inbound_follow(link_inbound *i, link_missing missing, void *whom, double until,
                             bint gather)
    void link_inbound_leave(link_inbound *i, double waited)
    void link_inbound_link(link_inbound *i, int fd)
    void link_inbound_unlink(link_inbound *i)
    bint link_inbound_is_near(const link_inbound *i)
    void link_inbound_waited(link_inbound *i, double seconds)


cdef extern from "link_websocket.h" nogil:
    ctypedef struct link_websocket:
        jet_websocket_reader reader
        int fault
        jet_token_key key
        link_outbound *outbound
        bint ended

    void link_websocket_init(link_websocket *w, bint deflate)
    void link_websocket_free(link_websocket *w)
    int link_websocket_next(link_websocket *w, jet_span bytes, jet_websocket_part *part, size_t *used)
    link_filtered link_websocket_decode(void *context, const uint8_t *bytes, size_t n,
                                        jet_buf *out) noexcept
    link_filtered link_websocket_put(link_websocket *w, jet_span bytes, bint compressed, jet_buf *out)
    link_filtered link_websocket_encode(void *context, const uint8_t *bytes, size_t n,
                                        jet_buf *out) noexcept
    bint link_websocket_owes(link_websocket *w)
