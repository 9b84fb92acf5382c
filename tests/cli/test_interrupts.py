"""Ctrl-C and SIGTERM arrive where they can be handled, and are never lost."""

from __future__ import annotations

import os
import signal

import pytest

from jetsync.cli import interrupts


@pytest.mark.parametrize(
    ("signum", "kind", "code"),
    [(signal.SIGINT, KeyboardInterrupt, 130), (signal.SIGTERM, interrupts.Terminated, 143)],
)
def test_a_deferred_signal_arrives_after_the_block(
    signum: int, kind: type[KeyboardInterrupt], code: int
) -> None:
    reached = False
    with pytest.raises(kind) as caught, interrupts.terminable(), interrupts.deferred():
        os.kill(os.getpid(), signum)
        reached = True
    assert reached
    assert interrupts.exit_code(caught.value) == code


def test_an_undeferred_sigterm_interrupts_at_once() -> None:
    reached = False
    with pytest.raises(interrupts.Terminated), interrupts.terminable():
        os.kill(os.getpid(), signal.SIGTERM)
        reached = True
    assert not reached


def test_the_handlers_from_before_come_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with interrupts.terminable(), interrupts.deferred():
        pass
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_an_error_in_a_deferred_block_is_not_replaced_by_the_interrupt() -> None:
    with pytest.raises(ValueError, match="the real reason"), interrupts.terminable():  # noqa: SIM117
        with interrupts.deferred():
            os.kill(os.getpid(), signal.SIGINT)
            raise ValueError("the real reason")
