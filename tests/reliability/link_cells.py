"""The links of the matrices: round trips, bandwidths, and messages that fit on them."""

from __future__ import annotations

from typing import TypeAlias

from tests.harness.soak import SOAKING

KIB, MB = 1024, 1_000_000

RTTS = [0.0, 0.005, 0.03, 0.1, 0.3]
BANDWIDTHS = [None, 12_500_000, 5 * MB, 200_000]
COUNTS = {128: 60, 64 * KIB: 40, 1024 * KIB: 8, 5 * MB: 3}
"""How many messages of each size: some ways take a round trip for each of them."""

LONGEST = 40.0
"""Seconds that the messages of one cell may need on the wire."""

Cell: TypeAlias = "tuple[float, float | None, int, int]"
"""Round trip, bandwidth, size of a message, how many."""


def cells(short: list[Cell]) -> list[Cell]:
    """The short form, or every cell whose messages come in time."""
    if not SOAKING:
        return short
    return [
        (rtt, bandwidth, size, count)
        for rtt in RTTS
        for bandwidth in BANDWIDTHS
        for size, count in COUNTS.items()
        if bandwidth is None or count * size / bandwidth <= LONGEST
    ]
