"""The mechanism between dataclasses and NATS JSON, tried on a small class of its own."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from jetsync.errors import ConfigError, ProtocolError
from jetsync.jetstream._wire import (
    INT64_MAX,
    ZERO_TIME,
    Duration,
    Durations,
    Listing,
    MaybeDuration,
    WireEnum,
    WireObject,
    build,
    choice,
    flag,
    format_time,
    from_nanoseconds,
    integer,
    listing,
    mapping,
    nested,
    parse_time,
    parse_time_ns,
    raw,
    seconds,
    text,
    time,
    to_nanoseconds,
)

# ruff: noqa: RUF009  (the calls in the class bodies return dataclasses.field, which ruff cannot see)

UTC = timezone.utc


class Colour(WireEnum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Part(WireObject):
    label: str = text(always=True)
    wait: Duration = seconds(0.0)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Thing(WireObject):
    name: str = text()
    note: str | None = text(None)
    count: int = integer(-1, least=-1, most=1000)
    on: bool = flag()
    wait: Duration = seconds(0.0)
    limit: MaybeDuration = seconds(None)
    seen: MaybeDuration = seconds(None, never=-1)
    at: datetime | None = time()
    made: datetime = time(ZERO_TIME)
    colour: Colour | str = choice(Colour.RED)
    part: Part | None = nested(Part, optional=True)
    always: Part = nested(Part)
    parts: Listing[Part] = listing(Part)
    names: Listing[str] = listing(str)
    waits: Durations = listing(float)
    sizes: dict[str, int] = mapping(int)
    blob: dict[str, object] | None = raw()

    @property
    def at_ns(self):
        return self._time_ns("at")


FULL = {
    "name": "n",
    "note": "hello",
    "count": 7,
    "on": True,
    "wait": 1_500_000_001,
    "limit": 1,
    "seen": 2_000_000_000,
    "at": "2026-11-21T02:53:11.016046377Z",
    "made": "2026-11-21T02:53:10.123456Z",
    "colour": "blue",
    "part": {"label": "a", "wait": 3},
    "always": {"label": "b"},
    "parts": [{"label": "c"}, {"label": "d", "wait": 99}],
    "names": ["x", "y"],
    "waits": [1, 1_000_000_000],
    "sizes": {"k": 2**64 - 1},
    "blob": {"any": [1, {"thing": None}]},
}


# -- durations -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "nanoseconds"),
    [
        (0, 0),
        (1, 1_000_000_000),
        (0.1, 100_000_000),
        (0.3, 300_000_000),
        (1e-9, 1),
        (4e-10, 0),
        (5e-10, 0),
        (1.5e-9, 2),
        (2.675, 2_675_000_000),
        (1.000000001, 1_000_000_001),
        (86400.123456789, 86_400_123_456_789),
        (8_000_000.000000001, 8_000_000_000_000_001),
        (31536000.0, 31_536_000_000_000_000),
        (timedelta(days=1, microseconds=1), 86_400_000_001_000),
        (timedelta(days=36500, microseconds=1), 3_153_600_000_000_001_000),
        (INT64_MAX / 1e9, INT64_MAX),
    ],
)
def test_seconds_become_nanoseconds_as_they_were_written(value, nanoseconds):
    assert to_nanoseconds(value) == nanoseconds


@pytest.mark.parametrize(
    "nanoseconds",
    [
        *(0, 1, 3, 7, 999, 1001, 123_456_789, 999_999_999, 1_000_000_001, 5_000_000_033),
        *(86_400_000_000_001, 10**15 + 1, 2**52 - 1, 2**52 + 1, 97 * 86_400 * 10**9 - 1),
        INT64_MAX,
    ],
)
def test_nanoseconds_survive_the_way_through_float(nanoseconds):
    assert to_nanoseconds(from_nanoseconds(nanoseconds)) == nanoseconds


@pytest.mark.parametrize("value", [-1, -0.001, math.nan, math.inf, 1e10, "1s", None, True])
def test_what_is_no_duration_is_refused_by_name(value):
    with pytest.raises(ConfigError, match=r"Thing\.waits\[0\]"):
        Thing(waits=[value])


def test_a_duration_reads_back_as_float_whatever_was_given():
    for given in (2, 2.0, timedelta(seconds=2)):
        wait = Thing(wait=given).wait
        assert (wait, type(wait)) == (2.0, float)


# -- times -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected", "nanoseconds"),
    [
        ("1970-01-01T00:00:00Z", datetime(1970, 1, 1, tzinfo=UTC), 0),
        ("1970-01-01T00:00:01.5Z", datetime(1970, 1, 1, 0, 0, 1, 500000, UTC), 1_500_000_000),
        ("1969-12-31T23:59:59.999999999Z", datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), -1),
        (
            "2026-11-21T02:53:39.0145806Z",
            datetime(2026, 11, 21, 2, 53, 39, 14580, UTC),
            1_795_229_619_014_580_600,
        ),
        (
            "2026-11-21T04:53:39.014580699+02:00",
            datetime(2026, 11, 21, 2, 53, 39, 14580, UTC),
            1_795_229_619_014_580_699,
        ),
        (
            "2026-11-20T21:23:39-05:30",
            datetime(2026, 11, 21, 2, 53, 39, 0, UTC),
            1_795_229_619_000_000_000,
        ),
        ("0001-01-01T00:00:00Z", None, None),
        (None, None, None),
    ],
)
def test_server_times_are_read_to_the_nanosecond(text, expected, nanoseconds):
    assert parse_time(text) == expected
    assert parse_time_ns(text) == nanoseconds


@pytest.mark.parametrize("digits", range(10))
def test_every_number_of_fractional_digits_is_read_and_written(digits):
    text = "2026-11-21T02:53:39" + ("." + "123456789"[:digits] if digits else "") + "Z"
    thing = Thing.from_wire({"at": text})
    assert thing.to_wire()["at"] == text
    assert thing.at_ns % 10**9 == int("123456789"[:digits].ljust(9, "0"))


@pytest.mark.parametrize(
    "bad",
    [
        *("", "now", "2026-11-21", "2026-11-21T02:53:39", "2026-13-01T00:00:00Z", 5, [], True),
        *("0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00", "0000-01-01T00:00:00Z"),
    ],
)
def test_what_is_no_time_is_a_protocol_error(bad):
    with pytest.raises(ProtocolError, match="RFC 3339"):
        Thing.from_wire({"at": bad})


def test_a_time_without_zone_is_refused_by_name():
    with pytest.raises(ConfigError, match=r"Thing\.at needs a time zone"):
        Thing(at=datetime(2026, 1, 1))
    with pytest.raises(ConfigError, match="time zone"):
        format_time(datetime(2026, 1, 1))


def test_times_are_kept_and_sent_in_utc():
    moment = datetime(2026, 1, 1, 1, 30, tzinfo=timezone(timedelta(hours=2)))
    thing = Thing(at=moment)
    assert thing.at == moment
    assert thing.at.tzinfo is UTC
    assert thing.to_wire()["at"] == "2025-12-31T23:30:00Z" == format_time(moment)


def test_nanoseconds_survive_a_copy_and_give_way_to_a_new_time():
    thing = Thing.from_wire({"at": FULL["at"]})
    assert dataclasses.replace(thing, name="other").to_wire()["at"] == FULL["at"]
    assert pickle.loads(pickle.dumps(thing)).at_ns == thing.at_ns == 1_795_229_591_016_046_377
    moved = dataclasses.replace(thing, at=datetime(2026, 11, 21, 2, 53, 12, 16046, UTC))
    assert moved.at_ns == 1_795_229_592_016_046_000
    assert moved.to_wire()["at"] == "2026-11-21T02:53:12.016046Z"


# -- round trips -----------------------------------------------------------------------------------


def test_everything_comes_back_as_it_was_read():
    thing = Thing.from_wire(FULL)
    assert thing.to_wire() == FULL
    assert thing.extra == {}
    assert Thing.from_wire(thing.to_wire()) == thing
    assert json.loads(json.dumps(thing.to_wire())) == FULL


def test_the_values_have_python_types():
    thing = Thing.from_wire(FULL)
    assert (thing.wait, thing.limit, thing.seen) == (1.500000001, 1e-9, 2.0)
    assert thing.at == datetime(2026, 11, 21, 2, 53, 11, 16046, UTC)
    assert thing.colour is Colour.BLUE
    assert thing.part == Part(label="a", wait=3e-9)
    assert thing.parts[1].wait == 99e-9
    assert thing.waits == [1e-9, 1.0]


def test_defaults_are_not_sent_so_that_old_servers_need_not_know_them():
    assert Thing().to_wire() == {}
    assert Thing(count=-1, on=False, colour="red", names=(), note="").to_wire() == {}
    assert Part().to_wire() == {"label": ""}


def test_null_and_missing_fields_get_their_defaults():
    empty = Thing.from_wire({})
    assert empty == Thing.from_wire(dict.fromkeys(FULL)) == Thing()
    assert (empty.count, empty.limit, empty.made, empty.names) == (-1, None, ZERO_TIME, [])
    unset: dict[str, Any] = dict.fromkeys(FULL)
    assert Thing(**unset) == Thing()


def test_minus_one_means_never_where_the_field_says_so():
    assert Thing.from_wire({"seen": -1}).seen is None
    assert Thing.from_wire({"wait": -1}).to_wire() == {"wait": -1}


def test_unknown_keys_are_kept_and_sent_back_only_on_request():
    data = {**FULL, "new": {"x": 1}, "part": {"label": "a", "wait": 3, "inner": [1]}}
    thing = Thing.from_wire(data)
    assert thing.extra == {"new": {"x": 1}}
    assert thing.part is not None
    assert thing.part.extra == {"inner": [1]}
    assert thing.to_wire() == FULL
    assert thing.to_wire(include_extra=True) == data
    changed = dataclasses.replace(thing, name="other")
    assert changed.to_wire(include_extra=True) == {**data, "name": "other"}


def test_a_known_field_wins_over_an_extra_one():
    assert Thing(name="n", extra={"name": "m"}).to_wire(include_extra=True) == {"name": "n"}


HOPELESS: dict[str, list[Any]] = {
    "name": [1, [], {}, True],
    "count": ["1", 1.5, [], True],
    "on": [1, "true", []],
    "wait": ["1s", 1.5, False],
    "colour": [1, []],
    "part": [1, [], "x"],
    "parts": [1, "x", {}, [1]],
    "names": ["x", {"a": 1}, [1], [None]],
    "sizes": [[], "x", {"k": "v"}],
    "blob": [[], "x"],
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, bad) for field, values in HOPELESS.items() for bad in values]
)
def test_hopeless_types_are_a_protocol_error_that_names_the_field(field, value):
    with pytest.raises(ProtocolError, match=rf"Thing\.{field}"):
        Thing.from_wire({field: value})


@pytest.mark.parametrize("data", [None, [], "x", 1])
def test_an_answer_that_is_no_object_is_a_protocol_error(data):
    with pytest.raises(ProtocolError, match="Thing"):
        Thing.from_wire(data)


# -- enumerations ----------------------------------------------------------------------------------


def test_an_enumeration_is_its_text():
    red: str = Colour.RED
    assert str(red) == f"{red}" == red == "red"
    assert json.dumps({"c": Colour.RED}) == '{"c": "red"}'
    assert pickle.loads(pickle.dumps(Colour.RED)) is Colour.RED


def test_plain_texts_become_members():
    assert Thing(colour="blue").colour is Colour.BLUE


def test_a_value_only_a_newer_server_knows_stays_text_and_survives():
    thing = Thing.from_wire({"colour": "ultraviolet"})
    assert thing.colour == "ultraviolet"
    assert isinstance(thing.colour, str)
    again = pickle.loads(pickle.dumps(dataclasses.replace(thing, name="n")))
    assert again.to_wire() == {"name": "n", "colour": "ultraviolet"}
    assert type(again.to_wire()["colour"]) is str


def test_a_misspelt_value_is_refused_with_the_right_ones():
    with pytest.raises(ConfigError, match=r"Thing\.colour must be one of 'red', 'blue', got 'rde'"):
        Thing(colour="rde")


# -- what users give -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("name", 1, "must be a str, not int"),
        ("count", "1", "must be an int, not str"),
        ("count", True, "must be an int, not bool"),
        ("count", 1.0, "must be an int, not float"),
        ("count", -2, "between -1 and 1000, got -2"),
        ("count", 1001, "between -1 and 1000, got 1001"),
        ("on", 1, "must be True or False, not int"),
        ("wait", -1, "must not be negative"),
        ("at", "2026-01-01", "must be a datetime, not str"),
        ("part", "x", "must be a Part, not str"),
        ("parts", Part(), "must be a list, not Part"),
        ("names", "x", "must be a list, not str"),
        ("names", [1], r"\[0\] must be a str"),
        ("sizes", {"k": -1}, r"\['k'\] must be between"),
        ("sizes", {1: 1}, "must be a mapping with str keys"),
        ("extra", [], "must be a mapping, not list"),
    ],
)
def test_bad_input_is_a_config_error_that_names_the_field(field, value, words):
    with pytest.raises(ConfigError, match=words) as caught:
        Thing(**{field: value})
    assert str(caught.value).startswith(f"Thing.{field}")


def test_a_dict_will_do_for_an_object_inside():
    given: dict[str, Any] = {"part": {"label": "a"}, "parts": [{"label": "b"}]}
    assert Thing(**given) == Thing(part=Part(label="a"), parts=(Part(label="b"),))
    with pytest.raises(ConfigError, match="Part has no field 'lable'; did you mean 'label'"):
        build(Thing, None, {"part": {"lable": "a"}})


def test_changing_what_was_given_changes_nothing():
    names = ["x"]
    thing = Thing(names=names)
    names.append("y")
    assert thing.names == ["x"]


def test_objects_are_frozen_comparable_and_picklable():
    thing: Any = Thing.from_wire(FULL)
    with pytest.raises(dataclasses.FrozenInstanceError):
        thing.name = "other"
    assert not hasattr(thing, "__dict__")
    assert pickle.loads(pickle.dumps(thing)) == thing != Thing()


def test_the_repr_shows_what_differs_from_the_defaults():
    assert repr(Thing(name="n", wait=2)) == "Thing(name='n', wait=2.0)"
    assert repr(Thing.from_wire({"z": 1})) == "Thing(extra={'z': 1})"


# -- build -----------------------------------------------------------------------------------------


def test_build_takes_an_object_keywords_or_both():
    thing = Thing(name="n", count=3)
    assert build(Thing, thing, {}) == thing
    assert build(Thing, None, {"name": "n", "count": 3}) == thing
    assert build(Thing, thing, {"count": 4}) == Thing(name="n", count=4)
    assert build(Thing, {"name": "m", "count": 3}, {"name": "n"}) == thing


def test_build_keeps_what_it_does_not_override():
    read = Thing.from_wire({"at": FULL["at"], "new": 1})
    built = build(Thing, read, {"name": "n"})
    assert built.to_wire(include_extra=True) == {"at": FULL["at"], "new": 1, "name": "n"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cuont", "Thing has no field 'cuont'; did you mean 'count'?"),
        ("part_", "did you mean 'part'?"),
        ("qqqq", "Thing has no field 'qqqq'$"),
        ("_exact", "Thing has no field '_exact'"),
    ],
)
def test_build_names_an_unknown_field_and_the_nearest(name, words):
    for config in (None, Thing()):
        with pytest.raises(ConfigError, match=words):
            build(Thing, config, {name: 1})


def test_build_refuses_an_object_of_another_kind():
    wrong: Any
    for wrong in (Part(), "name", 1):
        with pytest.raises(ConfigError, match="expected a Thing or its fields as keywords"):
            build(Thing, wrong, {})
