"""A checker of histories of one key: whether they could have come from one register.

Each operation has a begin and an end. A key's states have revisions, and an operation says which
state it made or saw, so the order of the states is known and only three things are left to check:

- no two operations made the same state, and a state that was seen had the value that was written;
- what an operation needs held in the state before it: ``create`` no value, ``update`` its revision;
- time: an operation that ended before another one began does not belong to a later state.

A write whose outcome is not known may have happened at any time after its begin, or not at all.
"""

from __future__ import annotations

import bisect
import dataclasses


@dataclasses.dataclass
class Op:
    """One operation on one key, as its client saw it."""

    kind: str  # get, put, create, update, delete, purge; exists: a create that was refused
    key: str
    begin: float
    end: float
    revision: int = 0  # that was made or seen; 0: no state was seen (the key never had a value)
    value: bytes | None = None  # written, or seen; None for a deletion or nothing
    expected: int = 0  # of update


WRITES = ("put", "create", "update", "delete", "purge")
READS = ("get", "exists")


def violations(history: list[Op], unknown: dict[str, set[bytes | None]]) -> list[str]:
    """Return what is wrong with a history.

    ``unknown`` are the values per key that may be there, None for a deletion of unknown outcome.
    The time that it takes grows like n log n.
    """
    found: list[str] = []
    of_key: dict[str, list[Op]] = {}
    for op in history:
        of_key.setdefault(op.key, []).append(op)
    for key in sorted(of_key):
        found += _of_key(of_key[key], unknown.get(key, set()))
    return found


def _of_key(ops: list[Op], unknown: set[bytes | None]) -> list[str]:
    found: list[str] = []
    made: dict[int, Op] = {}
    for op in ops:
        if op.kind in WRITES:
            if op.revision in made:
                found.append(f"made twice: {made[op.revision]} and {op}")
            made[op.revision] = op
    for op in ops:
        if op.kind not in READS:
            continue
        writer = made.get(op.revision)
        if op.kind == "exists":
            if writer is not None and writer.value is None:
                found.append(f"refused although there was no value: {op} behind {writer}")
        elif writer is not None and op.value != writer.value:
            found.append(f"seen with another value: {op} of {writer}")
        elif writer is None and op.value is not None and op.value not in unknown:
            found.append(f"seen, but never written: {op}")
    revisions = sorted(made)
    for op in ops:
        if op.kind not in ("create", "update"):
            continue
        at = bisect.bisect_left(revisions, op.revision)
        before = revisions[at - 1] if at else 0
        if op.kind == "update" and before > op.expected:
            found.append(f"updated behind {op.expected} although {made[before]} was there: {op}")
        is_value = before in made and made[before].value is not None
        # A deletion of unknown outcome may have come in between.
        if op.kind == "create" and is_value and None not in unknown:
            found.append(f"created over {made[before]}: {op}")
    return found + _time([op for op in ops if op.kind in WRITES or op.kind in READS])


def _time(ops: list[Op]) -> list[str]:
    """An operation may not belong to a state that is older than one which was there before it
    began: made or seen by an operation that had ended."""
    found: list[str] = []
    ended = sorted(ops, key=lambda op: op.end)
    ends = [op.end for op in ended]
    newest: list[Op] = []
    for op in ended:
        newest.append(op if not newest or op.revision > newest[-1].revision else newest[-1])
    for op in ops:
        at = bisect.bisect_left(ends, op.begin)
        if at and newest[at - 1].revision > op.revision:
            found.append(f"too old: {op}, after {newest[at - 1]}")
    return found
