"""Things on the wire are dataclasses: one mechanism between Python fields and NATS JSON.

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
import difflib
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from decimal import ROUND_HALF_EVEN, Decimal
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from jetsync._deadline import Seconds, to_seconds
from jetsync.errors import ConfigError, ProtocolError

__all__ = [
    "INT64_MAX",
    "UINT64_MAX",
    "ZERO_TIME",
    "Duration",
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
    "raw",
    "seconds",
    "text",
    "time",
    "to_nanoseconds",
]

INT64_MAX = 2**63 - 1
UINT64_MAX = 2**64 - 1
INT32_MAX = 2**31 - 1

ZERO_TIME = datetime(1, 1, 1, tzinfo=timezone.utc)
"""What stands in a field that always has a time when the server gave none (Go's zero time)."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
)

W = TypeVar("W", bound="WireObject")
T = TypeVar("T")
Got = TypeVar("Got")
Given = TypeVar("Given")

if TYPE_CHECKING:

    class _Converted(Generic[Got, Given]):
        """A field that takes more types than it reads back."""

        def __get__(self, obj: object, owner: Any) -> Got: ...
        def __set__(self, obj: object, value: Given) -> None: ...

    Duration = _Converted[float, Seconds]
    MaybeDuration = _Converted[float | None, Seconds | None]
    Listing = _Converted[list[T], Iterable[T]]
else:
    Duration = float
    MaybeDuration = float | None
    Listing = list


# -- durations and times ---------------------------------------------------------------------------


def to_nanoseconds(value: Seconds, name: str = "duration") -> int:
    """Return a duration as integer nanoseconds: the decimal number the user wrote, rounded once.

    Exact for every value that came from :func:`from_nanoseconds` below 97 days, and for every
    ``timedelta``. Raises ``ConfigError`` for what is no duration or longer than 292 years.
    """
    amount = to_seconds(value, name)
    if amount > INT64_MAX / 1e9:
        raise ConfigError(f"{name} must be below 292 years, got {value!r}")
    # repr() has the digits that were written; float arithmetic would add its own.
    exact = (Decimal(repr(amount)) * 1_000_000_000).to_integral_value(ROUND_HALF_EVEN)
    return min(int(exact), INT64_MAX)


def from_nanoseconds(nanoseconds: int) -> float:
    """Return integer nanoseconds as seconds, correctly rounded."""
    return nanoseconds / 1_000_000_000


def time_to_nanoseconds(moment: datetime) -> int:
    """Return the nanoseconds since 1970 of a timezone-aware datetime."""
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000


def parse_time(value: str) -> tuple[datetime, int] | None:
    """Read RFC 3339 text as (UTC datetime, nanoseconds since 1970), or None for Go's zero time.

    Raises ``ValueError`` (or its subclass ``OverflowError``'s message as one) for anything else.
    """
    match = _RFC3339.fullmatch(value)
    if match is None:
        raise ValueError(f"{value!r} is no RFC 3339 time")
    day, clock, fraction, sign, hours, minutes = match.groups()
    moment = datetime.fromisoformat(f"{day}T{clock}+00:00")
    below = int((fraction or "").ljust(9, "0"))
    if sign:
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        try:
            moment = moment - offset if sign == "+" else moment + offset
        except OverflowError as error:
            raise ValueError(f"{value!r} is out of range") from error
    if moment == ZERO_TIME and not below:
        return None
    moment = moment.replace(microsecond=below // 1000)
    return moment, time_to_nanoseconds(moment) + below % 1000


def format_time(moment: datetime, nanoseconds: int | None = None) -> str:
    """Return a time as RFC 3339 text in UTC, to the nanosecond if ``nanoseconds`` is given.

    Raises ``ConfigError`` for a datetime without a time zone.
    """
    moment = _aware(moment, "time")
    below = moment.microsecond * 1000
    if nanoseconds is not None:
        below = nanoseconds % 1_000_000_000
    fraction = f".{below:09d}".rstrip("0").rstrip(".")
    return f"{moment:%H:%M:%S}".join((f"{moment.date().isoformat()}T", f"{fraction}Z"))


def _aware(moment: datetime, where: str) -> datetime:
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise ConfigError(
            f"{where} needs a time zone, as in datetime.now(timezone.utc); {moment!r} has none"
        )
    try:
        return moment.astimezone(timezone.utc)
    except OverflowError:
        raise ConfigError(f"{where} is out of range in UTC: {moment!r}") from None


# -- enumerations ----------------------------------------------------------------------------------


class WireEnum(str, Enum):
    """An enumeration whose members are their JSON text: ``str(m)``, ``==`` and ``f"{m}"`` show it."""

    def __str__(self) -> str:
        return str(self.value)

    __format__ = str.__format__


class UnknownValue(str):
    """The text of an enumeration that a newer server sent and this version does not know."""

    __slots__ = ()


# -- codecs: each knows one kind of field --------------------------------------------------------------


class Codec:
    """One kind of field. ``where`` names the field in errors."""

    def clean(self, value: Any, where: str) -> Any:
        """Return what the user gave in its stored form. Raises ``ConfigError``."""
        raise NotImplementedError

    def load(self, value: Any, where: str) -> Any:
        """Return what the server sent in its stored form. Raises ``ProtocolError``."""
        raise NotImplementedError

    def dump(self, value: Any, include_extra: bool) -> Any:
        """Return the stored value as JSON."""
        return value


def _bad_input(where: str, wanted: str, value: object) -> ConfigError:
    return ConfigError(f"{where} must be {wanted}, not {type(value).__name__}")


def _bad_answer(where: str, wanted: str, value: object) -> ProtocolError:
    return ProtocolError(f"the server sent {value!r:.80} for {where}, which should be {wanted}")


class _Plain(Codec):
    def __init__(self, kind: type, called: str) -> None:
        self.kind = kind
        self.called = called

    def clean(self, value: Any, where: str) -> Any:
        if not isinstance(value, self.kind):
            raise _bad_input(where, self.called, value)
        return value

    def load(self, value: Any, where: str) -> Any:
        if not isinstance(value, self.kind):
            raise _bad_answer(where, self.called, value)
        return value


class _Integer(Codec):
    def __init__(self, least: int, most: int) -> None:
        self.least = least
        self.most = most

    def clean(self, value: Any, where: str) -> int:
        try:
            number = operator.index(value)
        except TypeError:
            raise _bad_input(where, "an int", value) from None
        if isinstance(value, bool):
            raise _bad_input(where, "an int", value)
        if not self.least <= number <= self.most:
            limits = f"{self.least} or more"
            if self.most < INT64_MAX or number > self.most:
                limits = f"between {self.least} and {self.most}"
            raise ConfigError(f"{where} must be {limits}, got {number}")
        return number

    def load(self, value: Any, where: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise _bad_answer(where, "an integer", value)
        return value


class _Seconds(Codec):
    def __init__(self, never: int | None) -> None:
        self.never = never

    def clean(self, value: Any, where: str) -> float:
        to_nanoseconds(value, where)
        return to_seconds(value, where)

    def load(self, value: Any, where: str) -> float | None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise _bad_answer(where, "integer nanoseconds", value)
        return None if value == self.never else from_nanoseconds(value)

    def dump(self, value: float, include_extra: bool) -> int:
        return -to_nanoseconds(-value) if value < 0 else to_nanoseconds(value)


class _Time(Codec):
    def clean(self, value: Any, where: str) -> datetime:
        if not isinstance(value, datetime):
            raise _bad_input(where, "a datetime", value)
        return _aware(value, where)

    def load(self, value: Any, where: str) -> tuple[datetime, int] | None:
        if not isinstance(value, str):
            raise _bad_answer(where, "a time", value)
        try:
            return parse_time(value)
        except ValueError:
            raise _bad_answer(where, "a time", value) from None


class _Choice(Codec):
    def __init__(self, kind: type[WireEnum]) -> None:
        self.kind = kind

    def clean(self, value: Any, where: str) -> str:
        if isinstance(value, (self.kind, UnknownValue)):
            return value
        try:
            return self.kind(value)
        except ValueError:
            known = ", ".join(repr(str(member)) for member in self.kind)
            raise ConfigError(f"{where} must be one of {known}, got {value!r}") from None

    def load(self, value: Any, where: str) -> str:
        if not isinstance(value, str):
            raise _bad_answer(where, "text", value)
        try:
            return self.kind(value)
        except ValueError:
            return UnknownValue(value)

    def dump(self, value: str, include_extra: bool) -> str:
        return str(value)


class _Nested(Codec):
    def __init__(self, kind: type[WireObject]) -> None:
        self.kind = kind

    def clean(self, value: Any, where: str) -> WireObject:
        if isinstance(value, self.kind):
            return value
        if not isinstance(value, Mapping):
            raise _bad_input(where, f"a {self.kind.__name__}", value)
        return build(self.kind, None, value)

    def load(self, value: Any, where: str) -> WireObject:
        if not isinstance(value, Mapping):
            raise _bad_answer(where, "a JSON object", value)
        return self.kind.from_wire(value)

    def dump(self, value: WireObject, include_extra: bool) -> dict[str, Any]:
        return value.to_wire(include_extra=include_extra)


class _List(Codec):
    def __init__(self, item: Codec) -> None:
        self.item = item

    def clean(self, value: Any, where: str) -> list[Any]:
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise _bad_input(where, "a list", value)
        return [self.item.clean(one, f"{where}[{index}]") for index, one in enumerate(value)]

    def load(self, value: Any, where: str) -> list[Any]:
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise _bad_answer(where, "a list", value)
        return [self.item.load(one, f"{where}[{index}]") for index, one in enumerate(value)]

    def dump(self, value: list[Any], include_extra: bool) -> list[Any]:
        return [self.item.dump(one, include_extra) for one in value]


class _Map(Codec):
    def __init__(self, item: Codec) -> None:
        self.item = item

    def clean(self, value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise _bad_input(where, "a mapping with str keys", value)
        return {key: self.item.clean(one, f"{where}[{key!r}]") for key, one in value.items()}

    def load(self, value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _bad_answer(where, "a JSON object", value)
        return {key: self.item.load(one, f"{where}[{key!r}]") for key, one in value.items()}

    def dump(self, value: dict[str, Any], include_extra: bool) -> dict[str, Any]:
        return {key: self.item.dump(one, include_extra) for key, one in value.items()}


_TEXT = _Plain(str, "a str")
_FLAG = _Plain(bool, "True or False")


# -- declaring fields ------------------------------------------------------------------------------


def _field(codec: Codec, default: Any, always: bool = False) -> Any:
    metadata = {"codec": codec, "always": always}
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def text(default: str | None = "", *, always: bool = False) -> Any:
    """Declare a text field. ``always``: send it even when it has its default."""
    return _field(_TEXT, default, always)


def flag(default: bool = False) -> Any:
    """Declare a yes-or-no field."""
    return _field(_FLAG, default)


def integer(default: int | None, *, least: int = 0, most: int = INT64_MAX) -> Any:
    """Declare an integer field; users may give what is between ``least`` and ``most``."""
    return _field(_Integer(least, most), default)


def seconds(default: float | None, *, never: int | None = None) -> Any:
    """Declare a duration; ``never`` are the nanoseconds by which the server says "none" (None)."""
    return _field(_Seconds(never), default)


def time(default: datetime | None = None) -> Any:
    """Declare a point in time."""
    return _field(_Time(), default)


def choice(default: WireEnum, *, always: bool = False) -> Any:
    """Declare a field of the enumeration that ``default`` is a member of."""
    return _field(_Choice(type(default)), default, always)


def nested(kind: type[WireObject], *, optional: bool = False) -> Any:
    """Declare a field that holds an object of its own; None by default if ``optional``."""
    return _field(_Nested(kind), None if optional else lambda: kind.from_wire({}))


def listing(item: type) -> Any:
    """Declare a list of texts (``str``), integers, durations (``float``) or objects."""
    return _field(_List(_item(item)), list)


def mapping(item: type) -> Any:
    """Declare a JSON object with values of one kind."""
    return _field(_Map(_item(item)), dict)


def raw() -> Any:
    """Declare a JSON object that is kept as the server sent it; None if there is none."""
    return _field(_Plain(Mapping, "a JSON object"), None)


def _item(kind: type) -> Codec:
    if issubclass(kind, WireObject):
        return _Nested(kind)
    return {str: _TEXT, int: _Integer(0, UINT64_MAX), float: _Seconds(None)}[kind]


# -- the objects -----------------------------------------------------------------------------------


class _Slot(NamedTuple):
    name: str
    codec: Codec
    always: bool
    field: dataclasses.Field[Any]

    def default(self) -> Any:
        if self.field.default_factory is not dataclasses.MISSING:
            return self.field.default_factory()
        return self.field.default


@cache
def _layout(kind: type[WireObject]) -> tuple[_Slot, ...]:
    return tuple(
        _Slot(field.name, field.metadata["codec"], field.metadata["always"], field)
        for field in dataclasses.fields(kind)
        if "codec" in field.metadata
    )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class WireObject:
    """Base of what travels as JSON. Immutable by its fields, hence safe to share between threads.

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
        object.__setattr__(self, "extra", dict(self.extra))
        self._check()

    def _check(self) -> None:
        """Refuse what can be seen to be wrong in every use. Raises ``ConfigError``."""

    def validate(self) -> None:
        """Raise ``ConfigError``, naming the field, for what the server would certainly refuse.

        Does not block. Calls that send such an object do this first.
        """
        self._check()

    @classmethod
    def from_wire(cls: type[W], data: Mapping[str, Any]) -> W:
        """Read decoded JSON. Missing and null fields get their defaults, unknown ones are kept.

        Nothing the server says is judged: it may know more than this version. Raises
        ``ProtocolError`` only for a value whose JSON type makes no sense. Does not block.
        """
        if not isinstance(data, Mapping):
            raise _bad_answer(cls.__name__, "a JSON object", data)
        self = object.__new__(cls)
        exact: dict[str, int] = {}
        known = set(cls._ENVELOPE)
        for slot in _layout(cls):
            known.add(slot.name)
            value = data.get(slot.name)
            if value is not None:
                value = slot.codec.load(value, f"{cls.__name__}.{slot.name}")
            if isinstance(value, tuple):
                value, nanoseconds = value
                if nanoseconds % 1000:
                    exact[slot.name] = nanoseconds
            object.__setattr__(self, slot.name, slot.default() if value is None else value)
        extra = {key: value for key, value in data.items() if key not in known}
        object.__setattr__(self, "extra", extra)
        object.__setattr__(self, "_exact", exact)
        return self

    def to_wire(self, *, include_extra: bool = False) -> dict[str, Any]:
        """Return the JSON object to send, without fields that are None or have their default.

        ``include_extra`` adds what was read and not understood: right only when that same server is
        given back its own words, since servers refuse fields they do not know.
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
        # A copy with another time carries the old digits along: they count only where they fit.
        return exact if exact // 1000 == nanoseconds // 1000 else nanoseconds

    def __repr__(self) -> str:
        shown = [
            f"{slot.name}={value!r}"
            for slot in _layout(type(self))
            if slot.always or (value := getattr(self, slot.name)) != slot.default()
        ]
        if self.extra:
            shown.append(f"extra={dict(self.extra)!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


def build(cls: type[W], config: W | Mapping[str, Any] | None, fields: Mapping[str, Any]) -> W:
    """Make a ``cls`` from what a call was given: an object, its fields as keywords, or both.

    Keywords override the object's fields. The result is validated. Raises ``ConfigError`` naming
    an unknown field and the one that was probably meant. Does not block.
    """
    if isinstance(config, Mapping):
        config, fields = None, {**config, **fields}
    if config is not None and not isinstance(config, cls):
        raise ConfigError(
            f"expected a {cls.__name__} or its fields as keywords, not {type(config).__name__}"
        )
    known = [slot.name for slot in _layout(cls)]
    for name in fields:
        if name not in known and name != "extra":
            near = difflib.get_close_matches(str(name), known, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"{cls.__name__} has no field {name!r}{meant}")
    built = cls(**fields) if config is None else dataclasses.replace(config, **fields)
    built.validate()
    return built
