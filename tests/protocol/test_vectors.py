"""The traps of the protocol, as readable vectors: the core and the reference read them alike."""

from __future__ import annotations

import pytest

from jetsync.headers import Headers
from tests.protocol.vectors import SIDS, load
from tests.reference import wire
from tests.reference.outcome import by_core, by_reference, raw, split

VECTORS = load()
each_vector = pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v.title)


@each_vector
def test_the_core_reads_a_vector_in_any_pieces(vector):
    """Whole, byte by byte, and cut in two at every position (long ones at some)."""
    data = vector.data
    assert by_core([data], SIDS) == vector.outcome
    if len(data) < 1000:
        assert by_core(split(data, range(len(data))), SIDS) == vector.outcome
    step = 1 + len(data) // 200
    for at in range(1, len(data), step):
        assert by_core([data[:at], data[at:]], SIDS) == vector.outcome


@each_vector
def test_the_reference_reads_a_vector_in_any_pieces(vector):
    data = vector.data
    assert by_reference([data], SIDS) == vector.outcome
    if len(data) < 1000:
        assert by_reference(split(data, range(len(data))), SIDS) == vector.outcome


@each_vector
def test_the_headers_of_a_vector_are_read_as_written(vector):
    for expected in vector.headers:
        assert wire.header_lines(expected.block) == (expected.lines, expected.malformed)
        headers = Headers.parse(expected.block)
        assert headers.malformed == expected.malformed
        pairs = [(raw(k), raw(v)) for k, vs in headers.to_dict().items() for v in vs]
        assert sorted(pairs) == sorted(expected.lines)
