# cython: nonecheck=True
"""SequencedWindow: each thread's messages stay in the order of its calls, whichever it mixes."""

from cpython.buffer cimport PyBuffer_Release
from libc.stdint cimport uint32_t, uint64_t

from jetsync._counted import counted
from jetsync._core.csrc cimport JET_OK, jet_buf_len, jet_span, jet_status, span_of, span_of_bytes
from jetsync._core.encoding cimport data_span, raise_status, text_span
from jetsync._core.in_flight cimport CHUNK_BYTES, PLAIN, Chunk
from jetsync._core.outbound cimport Outbound
from jetsync._core.sync cimport monotonic
from jetsync._core.window cimport PublishWindow

from jetsync.errors import OutboundFullError


# Seconds: messages of one chunk are at most this far apart, so its age is theirs.
cdef double CHUNK_AGE = 1.0


cdef class SequencedWindow(PublishWindow):
    """A window that is filled one message at a time. A message that a thread publishes by another
    call does not overtake those that it has in here. Thread-safe."""

    @property
    def crowded(self):
        """Whether less than a quarter of the window is free: a thread that waits for room waits for
        a quarter, not for one message."""
        cdef uint32_t quarter = max(self.capacity // 4, <uint32_t>1)
        return (self.open_ > self.capacity - quarter
                or self.next_ - self.head > self.ring - quarter
                or self.open_bytes > self.capacity_bytes - self.capacity_bytes // 4)

    cdef bint _has_room(self) noexcept:
        return (self.open_ < self.capacity and self.next_ - self.head < self.ring
                and self.open_bytes < self.capacity_bytes)

    cdef jet_status _chunk(self) noexcept:
        """Have a chunk open that takes the next message."""
        cdef Chunk *chunk = &self.chunks[self.chunk_next & self.mask]
        cdef jet_status status
        if self.chunk_open and (jet_buf_len(&chunk.frames) >= CHUNK_BYTES
                                or (chunk.sent and chunk.sent + CHUNK_AGE < monotonic())):
            self._flush()
            self.chunk_next += 1
            self.chunk_open = False
            self._advance()
        if not self.chunk_open:
            status = self._begin()
            if status != JET_OK:
                return status
            self.chunk_open = True
        return JET_OK

    # -- the order of one thread's messages ------------------------------------------------------

    cdef bint overtaken(self, uint64_t end) noexcept:
        """Whether a message that this thread hands over elsewhere now would overtake one before
        number `end` in here. Before that, hands over what can leave.

        Messages that a server refused for now, and that are tried again later, do not count."""
        cdef bint behind
        if self.head >= end or self.ended or not self._owned():
            return False
        if self.unsent >= end and not self.lost and self.link == self.outbound.link_now():
            return False
        self._flush()
        behind = self.head < end and (
            self.unsent < end or (self.lost and self.repeated < end)
            or (self.head < self.unsent and self.link != self.outbound.link_now()))
        return behind

    def would_be_overtaken(self, uint64_t end):
        """Whether what this thread hands over elsewhere now would overtake messages before number
        `end` in here."""
        return self.overtaken(end)

    cdef bint _has_room_for_plain(self) noexcept:
        """One without confirmation is not among those that may be open."""
        return self.next_ - self.head < self.ring and self.open_bytes < self.capacity_bytes

    cdef bint add_plain(self, subject, data, reply, bytes header) except -1:
        """Add a message without confirmation (a core publish) behind the others. Returns False when
        too much waits. Raises ConfigError for what cannot be sent."""
        cdef Py_buffer view
        cdef jet_span subject_span, payload
        cdef jet_span reply_span = span_of(NULL, 0), header_span = span_of_bytes(header)
        cdef bytes subject_owner = text_span(subject, "subject", &subject_span)
        cdef bytes reply_owner = None if reply is None else text_span(reply, "reply", &reply_span)
        cdef int status = FULL
        try:
            data_span(data, &view, &payload)
            if header_span.len + payload.len > self.outbound.max_payload:
                self._raise_too_large(header_span.len + payload.len)
            if self._has_room_for_plain():
                status = self._chunk()
                if status == JET_OK:
                    self._own()
                    status = self._append(subject_span, reply_span, header_span, payload, PLAIN)
                if status == JET_OK:
                    self._flush()
        finally:
            PyBuffer_Release(&view)
        if status < 0:
            raise_status(<jet_status>status, subject_span)
        return status != FULL

    cdef object too_much(self, double waited):
        """The error for a core publish that waited so many seconds for room in here."""
        return OutboundFullError(
            "this message has to wait behind those of publish_async, and as many wait already as may "
            f"({counted(self.capacity_bytes, 'byte')} or {counted(self.ring, 'message')}), "
            + (f"for {waited:.3g} s" if self.outbound.link_now() else "without a connection")
        )


cdef SequencedWindow window_ahead(Outbound outbound):
    """The window whose messages would be overtaken by one that this thread hands over now; or None."""
    cdef tuple windows = outbound.windows
    cdef Py_ssize_t i
    cdef SequencedWindow window
    for i in range(len(windows)):
        window = <SequencedWindow>windows[i]
        if window.overtaken(window.next_):
            return window
    return None
