"""Objects on the wire are dataclasses: one mechanism between Python fields and NATS JSON.

A class of this kind is a frozen, keyword-only dataclass below :class:`WireObject`. Every field has
the name it has in JSON and a *codec* that knows three things: what users may give (``clean``), what
the server sends (``load``) and what is sent to the server (``dump``)::

    @dataclass(frozen=True, kw_only=True, slots=True, repr=False)
    class Limits(WireObject):
        max_age: Duration = seconds(0.0)        # float seconds here, integer nanoseconds in JSON
        max_msgs: int = integer(-1, least=-1)

Two rules keep old and new servers content. A field that has its default is not sent, because every
default here is what the server takes when the field is missing; so a server that does not know a
field sees it only when it is used. And keys that are not known here are kept in ``extra``, but sent
only when asked for, because servers from 2.12 on refuse what they do not know.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from jetsync._deadline import Seconds
from jetsync.errors import ConfigError
from jetsync.jetstream._codecs import (
    FLAG,
    INT64_MAX,
    TEXT,
    UINT64_MAX,
    ZERO_TIME,
    Choice,
    Codec,
    Integer,
    ListOf,
    MapOf,
    OptionalText,
    Plain,
    SecondsCodec,
    TimeCodec,
    WireEnum,
    bad_answer,
    bad_input,
    format_time,
    from_nanoseconds,
    read_time,
    time_to_nanoseconds,
    to_nanoseconds,
)
from jetsync.jetstream._field_docs import FieldDocs

__all__ = [
    "INT64_MAX",
    "UINT64_MAX",
    "ZERO_TIME",
    "Duration",
    "Durations",
    "Listing",
    "MaybeDuration",
    "WireEnum",
    "WireObject",
    "build",
    "choice",
    "flag",
    "format_time",
    "from_nanoseconds",
    "integer",
    "listing",
    "mapping",
    "nested",
    "parse_time",
    "parse_time_ns",
    "raw",
    "seconds",
    "text",
    "time",
    "to_nanoseconds",
]

W = TypeVar("W", bound="WireObject")
T = TypeVar("T")
Got = TypeVar("Got")
Given = TypeVar("Given")

if TYPE_CHECKING:

    class _Converted(Generic[Got, Given]):
        """A field that takes more types than it reads back."""

        def __get__(self, obj: object, owner: Any) -> Got:
            raise NotImplementedError

        def __set__(self, obj: object, value: Given) -> None:
            raise NotImplementedError

    Duration = _Converted[float, Seconds]
    MaybeDuration = _Converted[float | None, Seconds | None]
    Durations = _Converted[list[float], Iterable[Seconds]]
    Listing = _Converted[list[T], Iterable[T]]
else:
    Duration = float
    MaybeDuration = float | None
    Durations = list[float]
    Listing = list


# -- declaring fields ------------------------------------------------------------------------------


def _field(codec: Codec, default: Any, always: bool = False) -> Any:
    metadata = {"codec": codec, "always": always}
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def text(default: str | None = "", *, always: bool = False) -> Any:
    """Declare a text field. ``always``: send it even when it has its default."""
    codec = OptionalText(str, "a str") if default is None else TEXT
    return _field(codec, default, always)


def flag(default: bool = False) -> Any:
    """Declare a yes-or-no field."""
    return _field(FLAG, default)


def integer(default: int | None, *, least: int = 0, most: int | None = None) -> Any:
    """Declare an integer field; users may give what is between ``least`` and ``most`` (by default
    what a server can hold: 63 bits with negative numbers, 64 without)."""
    if most is None:
        most = INT64_MAX if least < 0 else UINT64_MAX
    return _field(Integer(least, most), default)


def seconds(default: float | None, *, never: int | None = None) -> Any:
    """Declare a duration; ``never`` are the nanoseconds by which the server says "none" (None)."""
    return _field(SecondsCodec(never), default)


def time(default: datetime | None = None) -> Any:
    """Declare a point in time."""
    return _field(TimeCodec(), default)


def choice(default: WireEnum, *, always: bool = False) -> Any:
    """Declare a field of the enumeration that ``default`` is a member of."""
    return _field(Choice(type(default)), default, always)


def nested(kind: type[WireObject], *, optional: bool = False) -> Any:
    """Declare a field that holds an object of its own; None by default if ``optional``."""
    return _field(_Nested(kind), None if optional else lambda: kind.from_wire({}))


def listing(item: type) -> Any:
    """Declare a list of texts (``str``), integers, durations (``float``) or objects."""
    return _field(ListOf(_item(item)), list)


def mapping(item: type) -> Any:
    """Declare a JSON object with values of one kind."""
    return _field(MapOf(_item(item)), dict)


def raw() -> Any:
    """Declare a JSON object that is kept as the server sent it; None if there is none."""
    return _field(Plain(Mapping, "a JSON object"), None)


def _item(kind: type) -> Codec:
    if issubclass(kind, WireObject):
        return _Nested(kind)
    return {str: TEXT, int: Integer(0, UINT64_MAX), float: SecondsCodec(None)}[kind]


# -- the objects -----------------------------------------------------------------------------------


class _Nested(Codec):
    def __init__(self, kind: type[WireObject]) -> None:
        self.kind = kind

    def clean(self, value: Any, where: str) -> WireObject:
        if isinstance(value, self.kind):
            return value
        if not isinstance(value, Mapping):
            raise bad_input(where, f"a {self.kind.__name__}", value)
        return build(self.kind, None, value)

    def load(self, value: Any, where: str) -> WireObject:
        if type(value) is not dict and not isinstance(value, Mapping):
            raise bad_answer(where, "a JSON object", value)
        return self.kind.from_wire(value)

    def dump(self, value: WireObject, include_extra: bool) -> dict[str, Any]:
        return value.to_wire(include_extra=include_extra)


class _Slot(NamedTuple):
    name: str
    codec: Codec
    always: bool
    field: dataclasses.Field[Any]

    def default(self) -> Any:
        if self.field.default_factory is not dataclasses.MISSING:
            return self.field.default_factory()
        return self.field.default


_layouts: dict[type, tuple[_Slot, ...]] = {}


def _layout(kind: type[WireObject]) -> tuple[_Slot, ...]:
    """The fields of a class that are sent and read; looked up once per class."""
    layout = _layouts.get(kind)
    if layout is None:
        layout = _layouts[kind] = tuple(
            _Slot(field.name, field.metadata["codec"], field.metadata["always"], field)
            for field in dataclasses.fields(kind)
            if "codec" in field.metadata
        )
    return layout


class _ReadField(NamedTuple):
    """How ``from_wire`` reads one field."""

    as_it_is: type | None
    load: Callable[[Any, str], Any]
    where: str
    put: Callable[[Any, Any], None]


_readings: dict[type, dict[str, _ReadField]] = {}


def _reading(kind: type[WireObject]) -> dict[str, _ReadField]:
    """How the fields of a class are read: worked out once, since lists have thousands of them."""
    _readings[kind] = fields = {
        slot.name: _ReadField(
            slot.codec.as_it_is,
            slot.codec.load,
            f"{kind.__name__}.{slot.name}",
            getattr(kind, slot.name).__set__,
        )
        for slot in _layout(kind)
    }
    return fields


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class WireObject:
    """Base of the objects that are sent as JSON. Its fields cannot be changed, so threads can share
    it.

    Equality compares all fields; ``dataclasses.replace`` gives a changed copy. Points in time are
    ``datetime`` in UTC (microseconds); where the server has nanoseconds, a property ending in
    ``_ns`` has them all, and they survive reading, replacing other fields and sending back.
    """

    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Fields the server sent that this version of jetsync does not know."""

    # The nanoseconds of times that have more of them than a datetime can hold.
    _exact: Mapping[str, int] = dataclasses.field(default_factory=dict, compare=False)

    _ENVELOPE: ClassVar[frozenset[str]] = frozenset()
    """Keys of an API answer that are about the answer, not about this object."""

    @classmethod
    def __init_subclass__(cls) -> None:
        names = cls.__dict__.get("__slots__")
        if names is not None:  # the class that dataclass() makes anew, with slots
            type.__setattr__(cls, "__slots__", FieldDocs(cls, names))

    def __post_init__(self) -> None:
        kind = type(self)
        for slot in _layout(kind):
            value = getattr(self, slot.name)
            value = (
                slot.default()
                if value is None
                else slot.codec.clean(value, f"{kind.__name__}.{slot.name}")
            )
            object.__setattr__(self, slot.name, value)
        if not isinstance(self.extra, Mapping):
            raise bad_input(f"{kind.__name__}.extra", "a mapping", self.extra)
        object.__setattr__(self, "extra", dict(self.extra))
        self._check()

    def _check(self) -> None:
        """Raise ``ConfigError`` for values that are invalid in every use."""

    def _repr_html_(self) -> str:
        """Return the fields without those that have their default as a table, for notebooks."""
        from jetsync.jetstream._html import as_table

        return as_table(type(self).__name__, self._shown())

    def _shown(self) -> list[tuple[str, Any]]:
        values = [(slot, getattr(self, slot.name)) for slot in _layout(type(self))]
        return [
            (slot.name, value) for slot, value in values if slot.always or value != slot.default()
        ]

    def validate(self) -> None:
        """Raise ``ConfigError``, naming the field, for what the server would certainly refuse.

        Does not block. Calls that send such an object do this first.
        """
        self._check()

    @classmethod
    def from_wire(cls: type[W], data: Mapping[str, Any]) -> W:
        """Read decoded JSON. Missing and null fields get their defaults, unknown ones are kept.

        The server's values are not checked: it may know more than this version. Raises
        ``ProtocolError`` only for a value whose JSON type makes no sense. Does not block.
        """
        if type(data) is not dict and not isinstance(data, Mapping):
            raise bad_answer(cls.__name__, "a JSON object", data)
        self = object.__new__(cls)
        fields = _readings.get(cls) or _reading(cls)
        exact: dict[str, int] = {}
        extra: dict[str, Any] = {}
        for key, sent in data.items():
            field = fields.get(key)
            if field is None:
                if key not in cls._ENVELOPE:
                    extra[key] = sent
                continue
            as_it_is, load, where, put = field
            value = sent
            if type(value) is not as_it_is:
                value = None if sent is None else load(sent, where)
                if type(value) is tuple:  # a time: what a datetime holds, and all its digits
                    value, nanoseconds = value
                    if nanoseconds % 1000:
                        exact[key] = nanoseconds
                if value is None:
                    continue
            put(self, value)
        # By name: in Python 3.10 each class has slots of its own for the fields of its base.
        object.__setattr__(self, "extra", extra)
        object.__setattr__(self, "_exact", exact)
        return self

    def __getattr__(self, name: str) -> Any:
        """Make the default of a field that the server did not send, at its first use."""
        for slot in _layout(type(self)):
            if slot.name == name:
                value = slot.default()
                object.__setattr__(self, name, value)
                return value
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def to_wire(self, *, include_extra: bool = False) -> dict[str, Any]:
        """Return the JSON object to send, without fields that are None or have their default.

        ``include_extra`` adds the fields that this version does not know: only for the server that
        sent them, since servers refuse fields they do not know.
        """
        wire: dict[str, Any] = dict(self.extra) if include_extra else {}
        for slot in _layout(type(self)):
            value = getattr(self, slot.name)
            if value is None or (not slot.always and value == slot.default()):
                continue
            if isinstance(value, datetime):
                wire[slot.name] = format_time(value, self._time_ns(slot.name))
            else:
                wire[slot.name] = slot.codec.dump(value, include_extra)
        return wire

    def _time_ns(self, name: str) -> int | None:
        """The nanoseconds since 1970 of a time field."""
        moment = getattr(self, name)
        if moment is None:
            return None
        nanoseconds = time_to_nanoseconds(moment)
        exact = self._exact.get(name, nanoseconds)
        # A copy with another time still has the old nanoseconds: use them only if they fit the
        # time.
        return exact if exact // 1000 == nanoseconds // 1000 else nanoseconds

    def __repr__(self) -> str:
        shown = [f"{name}={value!r}" for name, value in self._shown()]
        if self.extra:
            shown.append(f"extra={dict(self.extra)!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


def parse_time(value: str | None) -> datetime | None:
    """Read a time the server sent (RFC 3339) as ``datetime`` in UTC; None for its zero time.

    Raises ``ProtocolError`` for what is no time.
    """
    found = None if value is None else read_time(value, "time")
    return None if found is None else found[0]


def parse_time_ns(value: str | None) -> int | None:
    """Read a time like :func:`parse_time`, as nanoseconds since 1970."""
    found = None if value is None else read_time(value, "time")
    return None if found is None else found[1]


def build(cls: type[W], config: W | Mapping[str, Any] | None, fields: Mapping[str, Any]) -> W:
    """Make a ``cls`` from what a call was given: an object, its fields as keywords, or both.

    Keywords override the object's fields. The result is validated. Raises ``ConfigError`` naming
    an unknown field and the one that was probably meant. Does not block.
    """
    if isinstance(config, Mapping):
        return build(cls, None, {**config, **fields})
    if config is not None and not isinstance(config, cls):
        first = next(slot.name for slot in _layout(cls))
        example = f", as in {first}={config!r}" if isinstance(config, str) else ""
        raise ConfigError(
            f"expected a {cls.__name__} or its fields as keywords{example}, not "
            f"{type(config).__name__}"
        )
    known = [slot.name for slot in _layout(cls)]
    for name in fields:
        if name not in known and name != "extra":
            import difflib

            near = difflib.get_close_matches(str(name), known, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"{cls.__name__} has no field {name!r}{meant}")
    built = cls(**fields) if config is None else dataclasses.replace(config, **fields)
    built.validate()
    return built
