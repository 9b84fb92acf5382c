from libc.stddef cimport size_t
from libc.stdint cimport uint64_t

from jetsync._core.csrc cimport jet_buf, jet_span, jet_status
from jetsync._core.kept cimport Kept
from jetsync._core.sync cimport Gate, Leaf, Lock


cdef class Outbound:
    cdef Leaf lock                     # leaf: pending, fd, closed, counters
    cdef Lock send_lock                # the right to call send(); guards `sending`
    cdef Lock turn                     # several publishers wait for room one after another
    cdef Gate work                     # the writer waits here for bytes
    cdef Gate room                     # a publisher waits here for room
    cdef jet_buf pending               # whole frames, not yet taken by a sender
    cdef jet_buf sending               # what the holder of send_lock is sending
    cdef jet_buf plain                 # on a filtered link: what the holder encrypts next
    cdef Kept kept                     # what may not have arrived; under `lock`
    cdef public object on_kept         # who finds out: called with what _keep returns
    cdef bint filtered                 # whether there is one, readable without the GIL
    cdef object filter                 # None: bytes leave as they are; changed under send_lock
    cdef int fd                        # -1: no link
    cdef bint closed
    cdef bint hurried                  # the writer has more to send than what is kept
    cdef bint nudged                   # there may be something to send besides `pending`
    cdef object __weakref__
    cdef readonly size_t high_water
    cdef readonly size_t offline_limit
    cdef public double write_timeout
    cdef public size_t max_payload
    cdef uint64_t msgs, bytes_
    cdef readonly uint64_t pings  # put in for this link
    cdef readonly uint64_t links       # links so far: the number of the present one
    cdef readonly tuple windows        # publish windows that other publishes must not overtake
    cdef tuple retracted               # their reply prefixes: they send again themselves

    cdef int publish_spans(self, jet_span subject, jet_span reply, jet_span header,
                           jet_span payload, bint wake, double deadline=*,
                           uint64_t link=*) except -1
    cdef int answer_spans(self, jet_span subject, jet_span reply, jet_span payload,
                          bint keep=*, double deadline=*) except -1
    cdef int append_frames(self, jet_span frames, uint64_t count, bint keep=*,
                           bint wake=*, double deadline=*) except -1
    cdef bint _append_line(self, bytes line) except -1
    cdef bint offer_frames(self, jet_span frames, uint64_t count, uint64_t link,
                           bint wake) noexcept
    cdef uint64_t link_now(self) noexcept
    cdef void _retract(self) noexcept
    cdef int _keep(self, size_t before) noexcept nogil
    cdef void pong(self) noexcept nogil
    cdef int _enter(self, size_t size, double deadline) except -1
    cdef int _await_room(self, size_t size, double deadline) except -1
    cdef int _refuse(self, double waited) except -1
    cdef void _forget(self) noexcept nogil
    cdef void _give_up(self) noexcept nogil
    cdef int _leave(self, jet_status status, uint64_t messages, size_t before, bint wake) except -1
    cdef int _drain(self, int flags) noexcept nogil
    cdef bint _encrypt(self) noexcept


cdef bint has_room(Outbound out, size_t size) noexcept nogil
cdef int put_message(Outbound out, subject, data, reply, bytes header, bint wake,
                     double deadline=*, uint64_t link=*) except -1
