"""Cutting work into pieces: how far a batch may go, and which task reads which sequences.

Pure arithmetic on sequences. Ranges are by sequence, not by count: deleted messages and filters
make some of them lighter than others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["SequenceRange", "limit_heads", "split_ranges"]


@dataclass(frozen=True)
class SequenceRange:
    """The sequences ``first`` to ``last`` (both included) of one stream, read by one task."""

    stream: str
    created: str
    first: int
    last: int

    def __len__(self) -> int:
        return max(0, self.last - self.first + 1)


def limit_heads(
    starts: Mapping[str, int], heads: Mapping[str, int], budget: int | None
) -> dict[str, int]:
    """Return how far each stream may be read so that at most ``budget`` sequences are taken.

    The budget is shared in proportion to what each stream has waiting; rounding leaves nothing
    over as long as something waits, so every call makes progress.
    """
    waiting = {name: max(0, heads[name] - starts[name]) for name in sorted(starts)}
    total = sum(waiting.values())
    if budget is None or total <= budget:
        return {name: starts[name] + waiting[name] for name in waiting}
    shares = {name: budget * count // total for name, count in waiting.items()}
    left = budget - sum(shares.values())
    # The remainders are smaller than the number of streams: give them to the fullest ones.
    for name in sorted(waiting, key=lambda name: (shares[name] - waiting[name], name)):
        extra = min(left, waiting[name] - shares[name])
        shares[name] += extra
        left -= extra
    return {name: starts[name] + shares[name] for name in shares}


def split_ranges(
    ranges: Sequence[SequenceRange], *, max_records: int, min_partitions: int
) -> list[SequenceRange]:
    """Cut ranges into contiguous pieces of nearly equal length.

    No piece is longer than ``max_records``, and there are at least ``min_partitions`` pieces if
    there are that many sequences. Empty ranges vanish.
    """
    total = sum(len(item) for item in ranges)
    pieces: list[SequenceRange] = []
    for item in ranges:
        length = len(item)
        if length == 0:
            continue
        count = max(-(-length // max_records), -(-min_partitions * length // total))
        count = min(count, length)
        for index in range(count):
            pieces.append(
                SequenceRange(
                    item.stream,
                    item.created,
                    item.first + length * index // count,
                    item.first + length * (index + 1) // count - 1,
                )
            )
    return pieces
