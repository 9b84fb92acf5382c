"""Headers: a value is found without reading the others, and is the one that reading would give."""

from __future__ import annotations

import pickle
import random
import time
from typing import Any

import pytest

from jetsync import Headers
from jetsync._core.encoding import encode_headers
from jetsync._core.headers import received

NAMES: list[Any] = [
    "A",
    "A-B",
    "",
    "é",
    "\udcc3\udca9",
    "A:",
    "A\r",
    "A\r\nB",
    "NATS/1.0",
    5,
    "\udcff",
]
PIECES = b"A|A-B|\xc3\xa9|\xff|:|: |\r\n|\r|\n| |\t|x|NATS/1.0|NATS/1.0 404".split(b"|")


def test_the_first_value_is_the_same_before_and_after_reading_the_block():
    """Any bytes may be in a block: names without values, values that look like lines."""
    chosen = random.Random(3)
    found = 0
    for _ in range(30_000):
        raw = b"NATS/1.0\r\n" if chosen.random() < 0.7 else b""
        raw += b"".join(chosen.choices(PIECES, k=chosen.randrange(14)))
        name = chosen.choice(NAMES)
        unread, read = Headers.parse(raw), Headers.parse(raw)
        assert read.malformed >= 0
        assert unread.get(name) == read.get(name), (raw, name)
        assert received(raw).get(name) == read.get(name), (raw, name)
        assert (name in received(raw)) == (name in read), (raw, name)
        found += read.get(name) is not None
    assert found > 100


@pytest.mark.parametrize("parse", [Headers.parse, received])
def test_looking_a_name_up(parse):
    headers = parse(b"NATS/1.0\r\nA:  1\t\r\na: 2\r\nA: 3\r\nbad\r\n\r\n")
    assert (headers.get("A"), headers["a"], headers.get("b"), headers.get("b", 7)) == (
        "1",
        "2",
        None,
        7,
    )
    assert "A" in headers
    assert NAMES[9] not in headers
    with pytest.raises(KeyError):
        headers["b"]
    assert headers.malformed == 1
    assert headers.get_all("A") == ["1", "3"]
    assert headers.get("A") == "1"


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("parse", [Headers.parse, received])
def test_a_pickled_copy_is_equal(parse, read):
    headers = parse(b"NATS/1.0\r\nA: 1\r\nbad\r\n\r\n")
    assert not read or len(headers) == 1
    copy = pickle.loads(pickle.dumps(headers))
    assert (copy, copy.malformed) == (headers, 1)


def test_received_headers_are_headers():
    """Whatever came over the wire compares, hashes and prints like any other headers."""
    raw = b"NATS/1.0\r\nA: 1\r\n\r\n"
    ours, same = received(raw), Headers.parse(raw)
    assert isinstance(ours, Headers)
    assert (ours, hash(ours), repr(ours)) == (same, hash(same), repr(same))
    assert (ours["A"], ours.to_dict(), list(ours)) == ("1", {"A": ["1"]}, ["A"])


def cpu_seconds(work) -> float:
    """What a call costs this thread: the least of three."""
    costs = []
    for _ in range(3):
        start = time.thread_time()
        work()
        costs.append(time.thread_time() - start)
    return min(costs)


USES = {
    "dict": dict,
    "items": lambda headers: list(headers.items()),
    "values": lambda headers: list(headers.values()),
    "lookups": lambda headers: [headers[f"k{i}"] for i in range(headers._raw.count(b":"))],
    "publishing again": encode_headers,
    "comparing": lambda headers: headers == received(headers._raw),
    "to_dict": lambda headers: headers.to_dict(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("parse", [Headers.parse, received])
def test_reading_headers_takes_time_in_proportion_to_their_number(parse, use):
    """A publisher chooses how many there are. Ten times as many cost about ten times as much, where
    looking each one up from the beginning would cost a hundred times as much."""

    def cost(count: int) -> float:
        names = b"".join(b"k%d: v\r\n" % i for i in range(count))
        return cpu_seconds(lambda: use(parse(b"NATS/1.0\r\n" + names + b"\r\n")))

    assert cost(20_000) < 40 * cost(2_000)
