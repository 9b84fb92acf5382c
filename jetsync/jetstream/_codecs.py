"""Codecs: the kinds of fields of objects on the wire (texts, numbers, durations, times, lists,
...).

A codec knows what users may give (``clean``), what the server sends (``load``) and what is sent to
the server (``dump``). Durations are ``float`` seconds here and integer nanoseconds in JSON; times
are ``datetime`` in UTC here and RFC 3339 text in JSON.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any

from jetsync._deadline import Seconds, to_seconds
from jetsync.errors import ConfigError, ProtocolError

__all__ = [
    "FLAG",
    "INT64_MAX",
    "TEXT",
    "UINT64_MAX",
    "ZERO_TIME",
    "Choice",
    "Codec",
    "Integer",
    "ListOf",
    "MapOf",
    "OptionalText",
    "Plain",
    "SecondsCodec",
    "TimeCodec",
    "UnknownValue",
    "WireEnum",
    "bad_answer",
    "bad_input",
    "format_time",
    "from_nanoseconds",
    "read_time",
    "time_to_nanoseconds",
    "to_nanoseconds",
]

INT64_MAX = 2**63 - 1
UINT64_MAX = 2**64 - 1

ZERO_TIME = datetime(1, 1, 1, tzinfo=timezone.utc)
"""Go's zero time: what the server writes into a time field that has no time."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
)


# -- durations and times ---------------------------------------------------------------------------


def to_nanoseconds(value: Seconds, name: str = "duration") -> int:
    """Return a duration as integer nanoseconds: the decimal number the user wrote, rounded once.

    Exact for every value that came from :func:`from_nanoseconds` below 97 days, and for every
    ``timedelta``. Raises ``ConfigError`` for what is no duration or longer than 292 years.
    """
    amount = to_seconds(value, name)
    if amount > INT64_MAX / 1e9:
        raise ConfigError(f"{name} must be below 292 years, got {value!r}")
    # Here and not at the top: a program that gives no duration does without the module.
    from decimal import ROUND_HALF_EVEN, Decimal

    # repr() has the digits that were written; float arithmetic would add its own.
    exact = (Decimal(repr(amount)) * 1_000_000_000).to_integral_value(ROUND_HALF_EVEN)
    return min(int(exact), INT64_MAX)


def from_nanoseconds(nanoseconds: int) -> float:
    """Return integer nanoseconds as seconds, correctly rounded."""
    return nanoseconds / 1_000_000_000


def time_to_nanoseconds(moment: datetime) -> int:
    """Return the nanoseconds since 1970 of a timezone-aware datetime."""
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000


_GO_ZERO = "0001-01-01T00:00:00Z"


def read_time(value: object, where: str) -> tuple[datetime, int] | None:
    """Read RFC 3339 text as (UTC datetime, nanoseconds since 1970), or None for Go's zero time.

    Raises ``ProtocolError``, naming ``where``, for anything else.
    """
    if value == _GO_ZERO:
        return None
    match = _RFC3339.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise bad_answer(where, "an RFC 3339 time", value)
    day, clock, fraction, sign, hours, minutes = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}+00:00")
        if sign:
            offset = timedelta(hours=int(hours), minutes=int(minutes))
            moment = moment - offset if sign == "+" else moment + offset
    except (ValueError, OverflowError):
        raise bad_answer(where, "an RFC 3339 time", value) from None
    below = int((fraction or "").ljust(9, "0"))
    if moment == ZERO_TIME and not below:
        return None
    moment = moment.replace(microsecond=below // 1000)
    return moment, time_to_nanoseconds(moment) + below % 1000


def format_time(moment: datetime, nanoseconds: int | None = None) -> str:
    """Return a time as RFC 3339 text in UTC, to the nanosecond if ``nanoseconds`` is given.

    Raises ``ConfigError`` for what is no datetime, and for one without a time zone.
    """
    if not isinstance(moment, datetime):
        raise ConfigError(f"a time must be a datetime, not {type(moment).__name__}")
    moment = _aware(moment, "time")
    below = moment.microsecond * 1000
    if nanoseconds is not None:
        below = nanoseconds % 1_000_000_000
    fraction = f".{below:09d}".rstrip("0").rstrip(".")
    return f"{moment.replace(tzinfo=None, microsecond=0).isoformat()}{fraction}Z"


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
    """An enumeration whose members are their JSON text: that is what ``str()`` and ``==`` see."""

    def __str__(self) -> str:
        return str(self.value)


class UnknownValue(str):
    """The text of an enumeration that a newer server sent and this version does not know."""

    __slots__ = ()


# -- codecs: each knows one kind of field ----------------------------------------------------------


class Codec:
    """One kind of field. ``where`` names the field in errors."""

    as_it_is: type | None = None
    """A value of exactly this type from the server is stored as it is; None: every value is
    read."""

    def clean(self, value: Any, where: str) -> Any:
        """Return what the user gave in its stored form. Raises ``ConfigError``."""
        raise NotImplementedError

    def load(self, value: Any, where: str) -> Any:
        """Return what the server sent in its stored form. Raises ``ProtocolError``."""
        raise NotImplementedError

    def dump(self, value: Any, include_extra: bool) -> Any:
        """Return the stored value as JSON."""
        return value


def bad_input(where: str, wanted: str, value: object) -> ConfigError:
    return ConfigError(f"{where} must be {wanted}, not {type(value).__name__}")


def bad_answer(where: str, wanted: str, value: object) -> ProtocolError:
    return ProtocolError(f"the server sent {value!r:.80} for {where}, which should be {wanted}")


class Plain(Codec):
    def __init__(self, kind: type, called: str) -> None:
        self.kind = kind
        self.called = called
        self.as_it_is = kind

    def clean(self, value: Any, where: str) -> Any:
        if not isinstance(value, self.kind):
            raise bad_input(where, self.called, value)
        return value

    def load(self, value: Any, where: str) -> Any:
        if not isinstance(value, self.kind):
            raise bad_answer(where, self.called, value)
        return value


class Integer(Codec):
    as_it_is = int

    def __init__(self, least: int, most: int) -> None:
        self.least = least
        self.most = most

    def clean(self, value: Any, where: str) -> int:
        try:
            number = operator.index(value)
        except TypeError:
            raise bad_input(where, "an int", value) from None
        if isinstance(value, bool):
            raise bad_input(where, "an int", value)
        if not self.least <= number <= self.most:
            raise ConfigError(f"{where} must be between {self.least} and {self.most}, got {number}")
        return number

    def load(self, value: Any, where: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise bad_answer(where, "an integer", value)
        return value


class SecondsCodec(Codec):
    def __init__(self, never: int | None) -> None:
        self.never = never

    def clean(self, value: Any, where: str) -> float:
        to_nanoseconds(value, where)
        return to_seconds(value, where)

    def load(self, value: Any, where: str) -> float | None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise bad_answer(where, "integer nanoseconds", value)
        return None if value == self.never else from_nanoseconds(value)

    def dump(self, value: float, include_extra: bool) -> int:
        return -to_nanoseconds(-value) if value < 0 else to_nanoseconds(value)


class TimeCodec(Codec):
    def clean(self, value: Any, where: str) -> datetime:
        if not isinstance(value, datetime):
            raise bad_input(where, "a datetime", value)
        return _aware(value, where)

    def load(self, value: Any, where: str) -> tuple[datetime, int] | None:
        return read_time(value, where)


class Choice(Codec):
    def __init__(self, kind: type[WireEnum]) -> None:
        self.kind = kind
        self.known: dict[str, WireEnum] = {str(member): member for member in kind}

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
            raise bad_answer(where, "text", value)
        known = self.known.get(value)
        return UnknownValue(value) if known is None else known

    def dump(self, value: str, include_extra: bool) -> str:
        return str(value)


class ListOf(Codec):
    def __init__(self, item: Codec) -> None:
        self.item = item

    def clean(self, value: Any, where: str) -> list[Any]:
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise bad_input(where, "a list", value)
        return [self.item.clean(one, f"{where}[{index}]") for index, one in enumerate(value)]

    def load(self, value: Any, where: str) -> list[Any]:
        if type(value) is not list and (not isinstance(value, Sequence) or isinstance(value, str)):
            raise bad_answer(where, "a list", value)
        return [self.item.load(one, f"{where}[{index}]") for index, one in enumerate(value)]

    def dump(self, value: list[Any], include_extra: bool) -> list[Any]:
        return [self.item.dump(one, include_extra) for one in value]


class MapOf(Codec):
    def __init__(self, item: Codec) -> None:
        self.item = item

    def clean(self, value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise bad_input(where, "a mapping with str keys", value)
        return {key: self.item.clean(one, f"{where}[{key!r}]") for key, one in value.items()}

    def load(self, value: Any, where: str) -> dict[str, Any]:
        if type(value) is not dict and not isinstance(value, Mapping):
            raise bad_answer(where, "a JSON object", value)
        return {key: self.item.load(one, f"{where}[{key!r}]") for key, one in value.items()}

    def dump(self, value: dict[str, Any], include_extra: bool) -> dict[str, Any]:
        return {key: self.item.dump(one, include_extra) for key, one in value.items()}


class OptionalText(Plain):
    """A text or None; for None the server sends an empty text or leaves the field out."""

    def __init__(self, kind: type, called: str) -> None:
        super().__init__(kind, called)
        self.as_it_is = None  # an empty one is not

    def clean(self, value: Any, where: str) -> str | None:
        return super().clean(value, where) or None

    def load(self, value: Any, where: str) -> str | None:
        return super().load(value, where) or None


TEXT = Plain(str, "a str")
FLAG = Plain(bool, "True or False")
