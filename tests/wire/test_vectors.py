"""The traps of the protocol, as readable vectors: everything that reads the wire reads them alike.

Three readers: the plain-Python reference, the C library by itself, the extension around it.
"""

from __future__ import annotations

import itertools

import pytest

from jetsync.errors import ProtocolError
from jetsync.headers import Headers
from jetsync.protocol.info import ServerInfo
from tests.csrc import library
from tests.wire import reference
from tests.wire.outcome import by_core, by_library, by_reference, raw, split
from tests.wire.vectors import SIDS, load

VECTORS = load()
READERS = {"extension": by_core, "library": by_library, "reference": by_reference}
each_vector = pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v.title)
each_reader = pytest.mark.parametrize("reader", READERS.values(), ids=READERS.keys())
SHORT = 1000  # bytes up to which a vector is cut everywhere


@each_reader
@each_vector
def test_a_vector_is_read_in_any_pieces(vector, reader):
    """Whole, byte by byte, and cut in two at every position (long ones at some)."""
    data = vector.data
    assert reader([data], SIDS) == vector.outcome
    if len(data) < SHORT:
        assert reader(split(data, range(len(data))), SIDS) == vector.outcome
    step = 1 if len(data) < SHORT else 1 + len(data) // 50
    for at in range(1, len(data), step):
        assert reader([data[:at], data[at:]], SIDS) == vector.outcome


@each_vector
def test_the_headers_of_a_vector_are_read_as_written(vector):
    for expected in vector.headers:
        lines = (expected.lines, expected.malformed)
        assert reference.header_lines(expected.block) == lines
        assert library.header_lines(expected.block) == lines
        headers = Headers.parse(expected.block)
        assert headers.malformed == expected.malformed
        pairs = [(raw(k), raw(v)) for k, vs in headers.to_dict().items() for v in vs]
        assert sorted(pairs) == sorted(expected.lines)


def test_every_kind_of_end_occurs_in_the_vectors():
    """A kind of refusal, or of frame, that no vector shows would be untested."""
    assert {v.outcome.bad for v in VECTORS} == {"", "op", "args", "size", "line", "crlf"}
    assert {op for v in VECTORS for op, _ in v.outcome.events} == {"INFO", "-ERR", "PONG"}
    assert any(v.outcome.unmatched for v in VECTORS)
    assert any(v.outcome.pings for v in VECTORS)
    statuses = {m[4] for v in VECTORS for box in v.outcome.messages.values() for m in box}
    assert statuses >= {0, 100, 204, 404, 408, 409, 412, 423, 400, 500, 503, 999}


def test_what_a_server_says_about_itself_is_used_or_refused():
    """Any text of an INFO line, cut off anywhere, is a ServerInfo or a ProtocolError."""
    texts = {text for v in VECTORS for op, text in v.outcome.events if op == "INFO"}
    assert len(texts) >= 5
    used = refused = 0
    short = [text for text in texts if len(text) < SHORT]
    for text in itertools.chain(short, *([t[:n] for n in range(len(t))] for t in short)):
        try:
            ServerInfo.parse(text)
            used += 1
        except ProtocolError:
            refused += 1
    assert used >= 3
    assert refused >= 50
