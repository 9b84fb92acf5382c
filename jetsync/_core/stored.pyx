"""Messages of a direct get: the server adds lines about each behind its headers."""

from jetsync._core.csrc cimport (
    bytes_of, jet_record, jet_span, jet_stored, jet_stored_parse, span_of, span_of_bytes,
)
from jetsync._core.message cimport Msg

from jetsync.errors import ProtocolError


cdef class StoredFactory(MessageFactory):
    """Builds messages as they were published, and leaves the server's lines in `_lines`."""

    cdef Msg make(self, jet_record *r):
        cdef jet_stored stored
        cdef jet_record published = r[0]
        cdef Msg m
        if not jet_stored_parse(r.header, &stored):
            raise ProtocolError(
                "a direct get was answered without Nats-Stream, Nats-Sequence and Nats-Time-Stamp"
            )
        published.subject = stored.subject
        published.reply = published.header = span_of(NULL, 0)
        m = MessageFactory.make(self, &published)
        m.raw_headers = whole_block(stored.published)
        m._lines = bytes_of(stored.lines)
        return m


cdef bytes whole_block(jet_span published):
    """Published headers with the blank line that ends them; empty for none."""
    return bytes_of(published) + b"\r\n" if published.len else b""


def parse_stored(bytes raw_headers not None):
    """Read the lines that a server added to a stored message: (stream, subject, seq, timestamp_ns,
    num_pending, the headers it was published with), or None when it says nothing. Never raises."""
    cdef jet_stored stored
    if not jet_stored_parse(span_of_bytes(raw_headers), &stored):
        return None
    return (
        bytes_of(stored.stream).decode("utf-8", "surrogateescape"),
        bytes_of(stored.subject).decode("utf-8", "surrogateescape"),
        stored.seq, stored.timestamp_ns, stored.num_pending, whole_block(stored.published),
    )
