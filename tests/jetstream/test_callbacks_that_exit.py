"""A callback that raises SystemExit or KeyboardInterrupt is told of once; the next is called."""

from __future__ import annotations

import logging

import pytest

import jetsync
from tests.harness.waiting import wait_until

LONG = 20.0
RAISED = [SystemExit, KeyboardInterrupt, GeneratorExit]


def raise_first(kind, seen):
    """A callback that raises with its first call."""

    def callback(item):
        seen.append(item)
        if len(seen) == 1:
            raise kind

    return callback


def check_told_once(told, caplog, kind):
    wait_until(lambda: told, timeout=LONG)
    assert [type(event.error) for event in told] == [kind]
    assert len([record for record in caplog.records if record.exc_info]) == 1


@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("ordered", [False, True], ids=["consumer", "ordered"])
def test_consume_goes_on(url, stream, caplog, kind, ordered):
    told: list[jetsync.Event] = []
    seen: list[object] = []
    with jetsync.connect(url, on_error=told.append) as nc:
        js = nc.jetstream()
        js.publish_many((f"{stream.name}.a", b"x") for _ in range(3))
        consumer = js.ordered_consumer(stream.name) if ordered else js.create_consumer(stream.name)
        with caplog.at_level(logging.WARNING, logger="jetsync"):
            consuming = consumer.consume(raise_first(kind, seen))
            wait_until(lambda: len(seen) == 3, timeout=LONG)
            check_told_once(told, caplog, kind)
        consuming.stop()
        assert consuming.error is None


@pytest.mark.parametrize("kind", RAISED)
def test_callbacks_of_futures_go_on(url, stream, caplog, kind):
    told: list[jetsync.Event] = []
    seen: list[object] = []
    callback = raise_first(kind, seen)
    with jetsync.connect(url, on_error=told.append) as nc:
        js = nc.jetstream()
        with caplog.at_level(logging.WARNING, logger="jetsync"):
            for _ in range(3):
                js.publish_async(f"{stream.name}.a").add_done_callback(callback)
            wait_until(lambda: len(seen) == 3, timeout=LONG)
            check_told_once(told, caplog, kind)
