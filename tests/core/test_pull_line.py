"""A line sends what the writer holds before it waits; a pull that a signal handler breaks off while
it waits for room is not taken for sent."""

from __future__ import annotations

import contextlib
import signal
import types
from collections.abc import Iterator

import pytest

from jetsync._core.delivered import publish_ack
from jetsync._core.handles import Publishing
from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import Outbound
from jetsync._core.pull_line import PullLine
from jetsync._core.pulls import PullLedger, PullOptions
from jetsync.errors import OutboundFullError
from jetsync.jetstream.message import JetStreamMsg, MsgBatch
from tests.core.kit import LONG, link, pair, read


class Owner(Publishing):
    """As much of a connection as a message sees."""


class Interrupted(BaseException):
    """What the signal handler raises."""


@contextlib.contextmanager
def interrupt(after: float) -> Iterator[None]:
    def handler(number: int, frame: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def line() -> Iterator[PullLine]:
    """One whose outbound buffer is full, and whose server reads nothing."""
    with link(small=True, high_water=1000, write_timeout=LONG) as (outbound, _):
        with contextlib.suppress(OutboundFullError):
            while True:  # until the writer takes no more
                outbound.publish("s", b"", None, b"", True, seconds=0.2)
        yield line_of(outbound)


def line_of(outbound: Outbound) -> PullLine:
    made = PullLine()
    consumer = types.SimpleNamespace(cached_info=types.SimpleNamespace(config=None), ack_none=False)
    presence = types.SimpleNamespace(asked=None)
    rtt = types.SimpleNamespace(seconds=0.0)
    state = PullLedger(0.0)
    made._bind(consumer, "pull", "inbox.", Mailbox(), state, outbound, presence, MsgBatch, rtt)
    return made


def test_before_it_waits_it_sends_the_acknowledgements_that_the_writer_would_hold():
    """No thread pumps here."""
    with pair() as (ours, theirs):
        outbound = Outbound()
        outbound.attach(ours.fileno(), b"", 1 << 20)
        owner = Owner(outbound)
        publish_ack(JetStreamMsg._make("a", reply="$JS.ACK.1", owner=owner), b"+ACK", True)
        line_of(outbound).take(1, wait=0.01)
        assert read(theirs, 23) == b"PUB $JS.ACK.1 4\r\n+ACK\r\n"
        outbound.close()


def test_without_room_no_pull_is_under_way(line):
    assert line.pull(PullOptions(10, 30.0), seconds=0) == 0
    assert not line.state.is_open


def test_an_interrupt_while_it_waits_for_room_leaves_no_pull_behind(line):
    with pytest.raises(Interrupted), interrupt(0.2):
        line.pull(PullOptions(10, 30.0), seconds=LONG)
    assert line.state.number == 1
    assert not line.state.is_open
    assert line.state.outstanding == 0
