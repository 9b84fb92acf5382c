"""The compiled core against the reference, by the thousand cases (``JETSYNC_SOAK``: millions).

Each case is made from its number; a failure names it, and ``generate.of(number)`` makes it again.
"""

from __future__ import annotations

import pytest

from tests.harness.soak import scaled
from tests.wire import generate
from tests.wire.outcome import by_core, by_library, by_reference
from tests.wire.streams import MAX_SIZE, SIDS

CASES = scaled(25_000, 5_000_000)
TRANSCRIPTS = scaled(500, 50_000)
LIBRARY_EVERY = 20  # the library alone is called through ctypes, which is slow


@pytest.mark.timeout(scaled(300, 7200))
def test_the_core_and_the_reference_read_every_stream_alike(record_figure):
    alike = 0
    ends = dict.fromkeys(("", "op", "args", "size", "line", "crlf"), 0)
    for number in range(CASES):
        r = generate.of(number)
        pieces = generate.pieces(r, generate.stream(r))
        expected = by_reference(pieces, SIDS, MAX_SIZE)
        assert by_core(pieces, SIDS, MAX_SIZE) == expected, f"case {number}: {pieces!r}"
        if number % LIBRARY_EVERY == 0:
            assert by_library(pieces, SIDS, MAX_SIZE) == expected, f"case {number}: {pieces!r}"
        alike += 1
        ends[expected.bad] += 1
    record_figure("G14c cases read alike, one by one", alike)
    # The cases are worth something: every kind of end is common among them.
    assert min(ends.values()) > CASES / 100, ends


@pytest.mark.timeout(scaled(300, 7200))
def test_a_transcript_cut_anywhere_is_the_same_transcript(record_figure):
    """Whole, byte by byte, and cut in two at every position."""
    alike = splits = 0
    for number in range(TRANSCRIPTS):
        r = generate.of(-1 - number)
        data = generate.valid(r, 8) if number % 2 else generate.hostile(r, 8)
        whole = by_core([data], SIDS, MAX_SIZE)
        cuts = [[data[i : i + 1] for i in range(len(data))]]
        cuts += [[data[:at], data[at:]] for at in range(1, len(data))]
        for pieces in cuts:
            assert by_core(pieces, SIDS, MAX_SIZE) == whole, f"transcript {number}: {pieces!r}"
        splits += len(cuts)
        alike += 1
    record_figure(
        "G14b transcripts alike at every cut",
        alike,
        f"in {splits} ways",
    )
