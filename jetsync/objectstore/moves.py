"""Renaming: an object has exactly one name at every moment, also when other clients write either
name meanwhile, and when the renaming process ends half way.

A rename is three messages, each stored on the condition that the name it is about was not written
since the renaming client read it:

1. The old name gets a deletion mark with a note: where the object goes, its description, and which
   message was the new name's last one. From here on the content belongs to the rename. A reader who
   finds the mark still gets the object under its old name.
2. The new name gets the description, with a note that points back to the mark. This is the moment
   at which the object moves.
3. The mark is closed: its note loses the description.

A writer that finds an open mark, or a description that points to one, completes the rename before
it writes the name. So the note is enough to go on from, and no chunk is removed that another name
leads to. If another object was put under the new name before step 2, the rename cannot be done any
more: the description goes back to the old name. That is certain, because step 2 stores only behind
the message that the mark names, and a description of step 2 is replaced only after its mark was
closed.

In a bucket with ``allow_atomic`` steps 1 to 3 are one atomic batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from jetsync._deadline import Deadline
from jetsync.errors import (
    BatchPublishError,
    ObjectExistsError,
    PublishUnknownError,
    WrongLastSequenceError,
)
from jetsync.objectstore.found import Found, MovedFrom, MovedTo
from jetsync.objectstore.info import ObjectInfo, dump
from jetsync.objectstore.names import new_nuid

if TYPE_CHECKING:
    from jetsync.objectstore.backing import ObjectBacking

__all__ = ["complete", "rename", "seen_by_readers", "taken"]


def rename(
    backing: ObjectBacking,
    name: str,
    new_name: str,
    change: Callable[[ObjectInfo], ObjectInfo],
    deadline: Deadline,
) -> ObjectInfo:
    """Take an object to another name, with the description that ``change`` makes. Blocks.

    Goes on with a rename that was begun, and returns the object if it was done already. Raises
    ObjectNotFoundError, ObjectExistsError, ObjectMetaError and what storing raises.
    """
    begun: MovedTo | None = None
    while True:
        found = backing.find(name, deadline)
        if found is not None and complete(backing, name, found, deadline):
            continue
        if begun is not None and not (found is not None and found.has(begun.nuid)):
            # It was completed, by this call or by another client that wrote the old name since.
            return _changed(backing, begun, change, deadline)
        if found is not None and found.moved_to is not None and found.moved_to.name == new_name:
            there = backing.find(new_name, deadline)
            if there is not None and there.has(found.moved_to.nuid):
                return _changed(backing, found.moved_to, change, deadline)
        info = backing.existing(name, found)
        assert found is not None
        there = backing.settled(new_name, deadline)
        if there is not None and not there.is_free:
            if not there.has(info.nuid):
                raise taken(backing.bucket, new_name)
            # Another client stopped between the two steps of its rename: take the old name away.
            mark = _mark(backing, name, MovedTo(new_name, info.nuid, there.seq, None))
            _try(backing, name, mark, found.seq, deadline)
            continue
        wanted = dataclasses.replace(change(info), name=new_name)
        behind = there.seq if there is not None else 0
        begun = _begin(
            backing, name, found.seq, MovedTo(new_name, info.nuid, behind, wanted), deadline
        )


def _begin(
    backing: ObjectBacking, name: str, seq: int, move: MovedTo, deadline: Deadline
) -> MovedTo | None:
    """Store the first step of a rename, or all of it; returns it if it is certainly stored."""
    try:
        if not backing.is_atomic or not _store_together(backing, name, seq, move, deadline):
            backing.write(name, _mark(backing, name, move), seq, deadline)
    except WrongLastSequenceError:
        return None
    except PublishUnknownError:
        if deadline.expired:
            raise
        return None
    return move


def _store_together(
    backing: ObjectBacking, name: str, seq: int, move: MovedTo, deadline: Deadline
) -> bool:
    """Store all of a rename at once; False where the stream does not take that (any more)."""
    assert move.info is not None
    mark = _mark(backing, name, move.closed())
    try:
        backing.write_together(
            [(name, mark, seq), (move.name, dump(move.info), move.behind)], deadline
        )
    except BatchPublishError:
        backing.is_atomic = False
        return False
    return True


def complete(backing: ObjectBacking, name: str, found: Found, deadline: Deadline) -> bool:
    """Complete the rename that a message about ``name`` belongs to. Blocks.

    Returns whether there was one: then read the name again.
    """
    if found.moved_from is not None:
        return _close_mark(backing, found.moved_from, name, found.nuid, deadline)
    move = found.moved_to
    if move is None or move.info is None:
        return False
    there = backing.find(move.name, deadline)
    if there is not None and there.has(move.nuid):
        closed = _mark(backing, name, move.closed(), found.nuid)
        _try(backing, name, closed, found.seq, deadline)
    elif (there.seq if there is not None else 0) <= move.behind:
        # A server that has just become the leader can report an older sequence.
        arrived = dump(move.info, moved_from=MovedFrom(name, found.nuid).to_wire())
        refusal = _try(backing, move.name, arrived, move.behind, deadline)
        actual = None if refusal is None else refusal.actual_seq
        if actual is not None and actual < move.behind:
            # That message aged out or was purged: the condition can never hold again.
            _go_back(backing, name, found.seq, move.info, deadline)
    else:
        _go_back(backing, name, found.seq, move.info, deadline)
    return True


def _go_back(
    backing: ObjectBacking, name: str, seq: int, info: ObjectInfo, deadline: Deadline
) -> None:
    """Give the old name its description back: the new one cannot get it any more."""
    back = dump(dataclasses.replace(info, name=name))
    _try(backing, name, back, seq, deadline)


def seen_by_readers(backing: ObjectBacking, name: str, found: Found, deadline: Deadline) -> Found:
    """Resolve a message about ``name`` for a reader, which completes no rename. Blocks if it is the
    mark of an open rename: until the new name has the object, the old one has it."""
    move = found.moved_to
    if move is None or move.info is None:
        return found
    there = backing.find(move.name, deadline)
    if there is not None and there.has(move.nuid):
        return found
    info = dataclasses.replace(move.info, name=name)
    return Found(found.seq, found.data, info, move.nuid)


def taken(bucket: str, name: str) -> ObjectExistsError:
    """The error for a name that an object has already."""
    return ObjectExistsError(
        f"there is an object {name!r} in bucket {bucket!r} already: take another name, or delete "
        "it first",
        bucket=bucket,
        name=name,
    )


def _mark(backing: ObjectBacking, name: str, move: MovedTo, mark: str | None = None) -> bytes:
    """The deletion mark of a name whose object is renamed, under an id that no chunks have."""
    gone = ObjectInfo(name=name, bucket=backing.bucket, nuid=mark or new_nuid(), deleted=True)
    return dump(gone, moved_to=move.to_wire())


def _close_mark(
    backing: ObjectBacking, origin: MovedFrom, name: str, nuid: str, deadline: Deadline
) -> bool:
    """Close the mark that a description points to; returns whether it was open."""
    left = backing.find(origin.name, deadline)
    if left is None or left.nuid != origin.mark or not left.is_moving:
        return False
    move = left.moved_to
    assert move is not None
    if move.name != name or move.nuid != nuid:
        return False
    closed = _mark(backing, origin.name, move.closed(), left.nuid)
    _try(backing, origin.name, closed, left.seq, deadline)
    return True


def _changed(
    backing: ObjectBacking,
    move: MovedTo,
    change: Callable[[ObjectInfo], ObjectInfo],
    deadline: Deadline,
) -> ObjectInfo:
    """Return a renamed object with the description that was wanted. If it was replaced under its
    new name already, that is what it had."""
    there = backing.find(move.name, deadline)
    info = there.info if there is not None and there.has(move.nuid) else move.info
    if info is None:
        return backing.info(move.name, deadline)
    if info is move.info or change(info) == info:
        return info

    def describe(found: Found | None) -> ObjectInfo:
        return change(backing.existing(move.name, found))

    return backing.replace(move.name, describe, deadline)[1]


def _try(
    backing: ObjectBacking, name: str, data: bytes, behind: int, deadline: Deadline
) -> WrongLastSequenceError | None:
    """Store one message of a rename; returns the refusal if another client was faster.

    The caller reads the name again to learn the outcome, also after a lost answer.
    """
    try:
        backing.write(name, data, behind, deadline)
    except WrongLastSequenceError as refusal:
        return refusal
    except PublishUnknownError:
        if deadline.expired:
            raise
    return None
