"""What the headers of an entry say about its key."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from jetsync.kv import Entry
from jetsync.kv.entry import ttl_of

HUGE = "9" * 70_000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60", 60.0),
        ("1", 1.0),
        ("1m0s", 60.0),
        ("1h2m3.5s", 3723.5),
        ("1500ms", 1.5),
        ("2000000us", 2.0),
        ("3000000\u00b5s", 3.0),
        ("1000000000ns", 1.0),
        ("never", None),
        ("", None),
        ("0", None),
        ("-5", None),
        ("-1m", None),
        ("1.5", None),
        ("1x", None),
        ("m", None),
        ("1m junk", None),
        ("9" * 18, None),
        (HUGE, None),
        (HUGE + "s", None),
        ("1s" * 30_000, 30_000.0),
        ("\u0661s", None),
    ],
    ids=lambda value: str(value)[:20],
)
def test_the_time_of_an_entry_as_clients_write_it(text, seconds):
    assert ttl_of(f"NATS/1.0\r\nNats-TTL: {text}\r\n\r\n".encode()) == seconds
    assert ttl_of(f"NATS/1.0\r\nOther: Nats-TTL {text}\r\n\r\n".encode()) is None


def test_how_long_an_entry_has_left():
    now = time.time_ns()
    lasting = Entry(bucket="b", key="k", value=b"", revision=1, created_ns=now)
    assert (lasting.ttl, lasting.expires, lasting.remaining) == (None, None, None)
    short = Entry(bucket="b", key="k", value=b"", revision=1, created_ns=now, ttl=100.0)
    assert short.expires == short.created + timedelta(seconds=100)
    assert short.remaining is not None
    assert 0 < short.remaining <= 100
    over = Entry(bucket="b", key="k", value=b"", revision=1, created_ns=0, ttl=100.0)
    assert over.remaining == 0.0
