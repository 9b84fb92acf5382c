"""Found: the last message about a name, with the notes of this library about renaming.

A rename leaves a note at both names, in fields of the stored JSON that other clients ignore. The
old name's deletion mark says where the object goes (``MovedTo``); while that is not done, the
object is still the old name's. The new name's description says where it came from (``MovedFrom``)
and which mark has to be closed before the object may be replaced there. See ``moves.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jetsync.errors import ConfigError, ObjectMetaError
from jetsync.objectstore.info import ObjectInfo, is_id, load, parse
from jetsync.objectstore.names import check_name

__all__ = ["Found", "MovedFrom", "MovedTo", "read_found"]


class MovedTo(NamedTuple):
    """Where an object went from the name whose deletion mark says this."""

    name: str
    """The new name."""
    nuid: str
    """Id of the content."""
    behind: int
    """Sequence of the last message about the new name when the rename began; 0 for none."""
    info: ObjectInfo | None
    """The description that the new name gets; None when the rename is done."""

    def closed(self) -> MovedTo:
        """The note of a rename that is done."""
        return MovedTo(self.name, self.nuid, self.behind, None)

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {"name": self.name, "nuid": self.nuid, "behind": self.behind}
        if self.info is not None:
            wire["object"] = self.info.to_wire()
        return wire


class MovedFrom(NamedTuple):
    """Where an object came from."""

    name: str
    """The old name."""
    mark: str
    """Id of the deletion mark that it left there."""

    def to_wire(self) -> dict[str, Any]:
        return {"name": self.name, "mark": self.mark}


class Found(NamedTuple):
    """The last message about a name."""

    seq: int
    data: bytes
    info: ObjectInfo | None
    """None when it cannot be read."""
    nuid: str
    """Id of its content, also where the rest cannot be read; empty when there is none."""
    moved_to: MovedTo | None = None
    moved_from: MovedFrom | None = None

    @property
    def is_free(self) -> bool:
        """Whether there is no object: it was deleted or renamed."""
        return self.info is not None and self.info.deleted

    @property
    def is_moving(self) -> bool:
        """Whether a rename of it was begun and is not done."""
        return self.moved_to is not None and self.moved_to.info is not None

    @property
    def is_settled(self) -> bool:
        """Whether certainly no rename has to be completed before the name is written."""
        return self.moved_from is None and not self.is_moving

    def has(self, nuid: str) -> bool:
        """Whether the name has this content."""
        return self.nuid == nuid and not self.is_free


def read_found(seq: int, data: bytes, bucket: str, time_ns: int) -> Found:
    """Read a message about a name, as far as it can be read. Does not block."""
    try:
        wire = parse(data, bucket)
    except ObjectMetaError:
        return Found(seq, data, None, "")
    nuid = wire.get("nuid")
    try:
        info = load(wire, bucket, time_ns)
    except ObjectMetaError:
        return Found(seq, data, None, nuid if isinstance(nuid, str) and is_id(nuid) else "")
    moved_to = _moved_to(wire.get("moved_to"), bucket, time_ns) if info.deleted else None
    moved_from = None if info.deleted else _moved_from(wire.get("moved_from"))
    return Found(seq, data, info, info.nuid, moved_to, moved_from)


def _moved_to(wire: Any, bucket: str, time_ns: int) -> MovedTo | None:
    """Read a note; None for none, and for one that makes no sense."""
    if not isinstance(wire, dict):
        return None
    name, nuid, behind = wire.get("name"), wire.get("nuid"), wire.get("behind")
    if not _is_name(name) or not is_id(nuid) or type(behind) is not int:
        return None
    if not 0 <= behind < 2**64:
        return None
    info = None
    if wire.get("object") is not None:
        try:
            info = load(wire["object"], bucket, time_ns)
        except (ObjectMetaError, AttributeError):
            return None
        if info.name != name or info.nuid != nuid or info.deleted:
            return None
    return MovedTo(str(name), str(nuid), behind, info)


def _moved_from(wire: Any) -> MovedFrom | None:
    if not isinstance(wire, dict):
        return None
    name, mark = wire.get("name"), wire.get("mark")
    if not _is_name(name) or not is_id(mark):
        return None
    return MovedFrom(str(name), str(mark))


def _is_name(name: Any) -> bool:
    try:
        check_name(name)
    except ConfigError:
        return False
    return True
