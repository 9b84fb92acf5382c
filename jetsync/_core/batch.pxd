from libc.stddef cimport size_t

from jetsync._core.csrc cimport jet_chain, jet_record
from jetsync._core.message cimport Maker
from jetsync._core.outbound cimport Outbound


cdef class MsgBatch:
    cdef jet_chain chain        # owned; records with a status are skipped everywhere
    cdef size_t rows            # records without a status
    cdef Maker maker
    cdef tuple kept             # the connection and what else its messages need
    cdef Outbound outbound
    cdef list messages          # built at the first use of an index
    cdef jet_record *index      # one borrowed record per row, built with it

    cdef int bind(self, Maker maker, Outbound outbound) except -1
    cdef int add(self, jet_record *r) except -1
    cdef int adopt(self, jet_chain *chain) except -1
    cdef void forget_index(self) noexcept
    cdef int build_index(self) except -1
    cdef tuple _sequences(self)
