from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t

from jetsync._core.csrc cimport jet_buf, jet_chain, jet_record, jet_span, jet_status
from jetsync._core.message cimport MessageFactory, AckStates, Msg
from jetsync._core.outbound cimport Outbound


cdef class MsgBatch:
    cdef jet_chain chain        # owned; no record has a status
    cdef size_t rows            # as many as there are records
    cdef MessageFactory factory
    cdef tuple owners             # the connection and what else its messages need
    cdef Outbound outbound
    cdef list messages          # built at the first use of an index
    cdef jet_record *index      # one borrowed record per row, built with it
    cdef size_t changes         # how often the chain was changed: walkers start again
    cdef AckStates ack_states            # made with the first message, None before
    cdef uint8_t flags          # the acknowledgement state of all of them
    cdef double since           # see Msg.since

    cdef int bind(self, MessageFactory factory, Outbound outbound) except -1
    cdef int add(self, jet_record *r) except -1
    cdef int adopt(self, jet_chain *chain) except -1
    cdef void forget_index(self) noexcept
    cdef int build_index(self) except -1
    cdef Msg message(self, size_t i, jet_record *r)
    cdef bint skips(self, size_t i, bint confirming) noexcept nogil
    cdef jet_status _encode_answers(self, jet_buf *frames, jet_span body, bint confirming,
                                    jet_span inbox, uint64_t *count) noexcept nogil
    cdef uint64_t encode_answers(self, jet_buf *frames, bytes payload, bytes prefix) except? 0
    cdef tuple _sequences(self)
