"""Cutting work into pieces: how far a batch may go, and which task reads which sequences.

Pure arithmetic on sequences. Ranges are by sequence, not by count: deleted messages and filters
make some of them lighter than others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

__all__ = ["SequenceRange", "limit_heads", "split_ranges"]

# How ranges are cut when the options do not say. Making and removing a consumer costs as much as
# delivering about a thousand messages, so pieces are much larger than that.
PIECE = 50_000
SMALL_PIECE = 2_500
LEAST_PIECES = 8
MOST_PIECES = 1_000


@dataclass(frozen=True)
class SequenceRange:
    """The sequences ``first`` to ``last`` (both included) of one stream, read by one task."""

    stream: str
    created: str
    first: int
    last: int
    filters: tuple[str, ...] = ()
    """Which subjects the task reads, if not all that the read asks for."""
    only_direct: bool = False
    """Whether no consumer may read them (a work queue, or option readMethod)."""

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
    ranges: Sequence[SequenceRange],
    *,
    max_records: int | None = None,
    min_partitions: int | None = None,
    messages: int | None = None,
    filters: Sequence[str] = (),
) -> list[SequenceRange]:
    """Cut ranges into contiguous pieces of nearly equal length.

    No piece is longer than ``max_records``, and there are at least ``min_partitions`` pieces if
    there are that many sequences. Without ``max_records`` pieces have about ``PIECE`` sequences,
    and there are at most ``MOST_PIECES`` for each range; without both there are ``LEAST_PIECES`` if
    each gets ``SMALL_PIECE`` sequences, so that several cores read. ``messages`` is how many
    messages there are at most: ranges with many holes are cut as if they were that long.

    With ``filters`` each range is one piece for each filter instead: what passes it stays together
    and in order.

    The pieces follow from the arguments alone, and not from the machine: a batch that is repeated
    elsewhere is cut in the same way. Empty ranges vanish.
    """
    if filters:
        return [
            replace(item, filters=(subject,)) for item in ranges if len(item) for subject in filters
        ]
    total = sum(len(item) for item in ranges)
    pieces: list[SequenceRange] = []
    for item in ranges:
        length = len(item)
        if length == 0:
            continue
        filled = length if messages is None else max(1, min(length, messages))
        if max_records is not None:
            count = -(-length // max_records)
        else:
            count = min(-(-filled // PIECE), MOST_PIECES)
        if min_partitions is not None:
            count = max(count, -(-min_partitions * length // total))
        elif max_records is None:
            count = max(count, min(-(-LEAST_PIECES * length // total), filled // SMALL_PIECE))
        count = min(count, length)
        for index in range(count):
            pieces.append(
                replace(
                    item,
                    first=item.first + length * index // count,
                    last=item.first + length * (index + 1) // count - 1,
                )
            )
    return pieces
