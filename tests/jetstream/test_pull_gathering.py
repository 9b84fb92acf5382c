"""A stream takes messages that keep coming many at a time.

Counted in receives: to be woken for a piece costs as much as to be woken for ten.
"""

from __future__ import annotations

import threading
import time

import pytest

from jetsync.client.port import port_of
from tests.core.kit import LONG, message
from tests.harness.waiting import wait_until
from tests.jetstream.scripted import scripted_consumer

PIECE, PIECES = 10, 300
COUNT = PIECE * PIECES


def send(scripted, first: int = 1, end: int = COUNT + 1) -> None:
    """Serve the first pull piece by piece, each a moment after the one before."""
    pull = scripted.wait_for_pulls(1)[0]
    sid = int(scripted.sid_of(pull))
    for at in range(first, end, PIECE):
        scripted.tell(
            b"".join(
                message(
                    b"S.a",
                    sid,
                    b"x" * 100,
                    reply=b"$JS.ACK.S.c.1.%d.%d.1795229586547204964.%d" % (n, n, COUNT - n),
                )
                for n in range(at, min(at + PIECE, end))
            )
        )
        time.sleep(0.0001)  # the next piece comes when this one could have been taken


def by_loop(consumer) -> list[int]:
    taken = []
    with consumer.messages(max_messages=2 * COUNT, stop_after=COUNT) as stream:
        for msg in stream:
            msg.ack()
            taken.append(msg.seq)
    return taken


def by_callback(consumer) -> list[int]:
    taken: list[int] = []
    with consumer.consume(
        lambda msg: (msg.ack(), taken.append(msg.seq)), max_messages=2 * COUNT, stop_after=COUNT
    ) as context:
        assert context.wait(LONG)
    return taken


@pytest.mark.straight  # over TLS the thread that reads is woken for each piece
@pytest.mark.parametrize("take", [by_loop, by_callback])
def test_messages_that_keep_coming_are_taken_many_at_a_time(take):
    """The least of a few: where the machine is busy pieces come slowly, each taken by itself."""

    def receives() -> int:
        with scripted_consumer() as scripted:
            sender = threading.Thread(target=send, args=(scripted,))
            sender.start()
            assert take(scripted.consumer) == list(range(1, COUNT + 1))
            sender.join()
            return port_of(scripted.nc).reads

    wait_until(lambda: receives() <= PIECES / 2, timeout=LONG)


def test_one_message_after_many_is_delivered_when_it_comes():
    """The callback waited for many at once before. The check of the heartbeat would find the
    message after the time of the test."""
    taken: list[int] = []
    with (
        scripted_consumer() as scripted,
        scripted.consumer.consume(
            lambda msg: taken.append(msg.seq), max_messages=2 * COUNT, stop_after=COUNT,
            expires=8 * LONG, heartbeat=4 * LONG,
        ) as context,
    ):  # fmt: skip
        send(scripted, end=COUNT)
        wait_until(lambda: len(taken) == COUNT - 1, timeout=LONG)
        send(scripted, first=COUNT)
        assert context.wait(LONG)
