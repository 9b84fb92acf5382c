"""What a connection keeps of its last error, and what that keeps alive."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Iterator
from functools import partial

import pytest

import jetsync
from jetsync.client.last_error import without_traceback
from jetsync.server import NatsServer
from tests.harness.waiting import wait_until

LONG = 20.0


class OfTwoPartsError(Exception):
    """Its constructor takes something else than that of its superclass: it cannot make a copy."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code


class OnlyError(Exception):
    """Refuses to be copied."""

    def __copy__(self) -> OnlyError:
        return self

    def __new__(cls, code: int, reason: str) -> OnlyError:
        return super().__new__(cls)

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)


def raised(error: BaseException, way: str) -> BaseException:
    """Give an error a traceback, and one before it that has a traceback too."""
    try:
        try:
            raise LookupError("what came before")
        except LookupError as before:
            if way == "context":
                raise error  # noqa: B904 - the context is what is looked at
            raise error from (before if way == "cause" else None)
    except BaseException as caught:
        return caught


def chain(error: BaseException) -> list[BaseException]:
    """An error and what a traceback would show before it."""
    found = [error]
    before = error.__cause__
    if before is None and not error.__suppress_context__:
        before = error.__context__
    return found if before is None else found + chain(before)


@pytest.mark.parametrize("way", ["context", "cause", "none"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: jetsync.PermissionsError("no", operation="publish", subject="s"),
        lambda: OSError(2, "no such file", "name"),
        lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no start"),
        lambda: OfTwoPartsError(7, "of a user"),
        KeyboardInterrupt,
    ],
)
def test_an_error_is_kept_with_all_that_it_says_but_no_traceback(make, way):
    error = raised(make(), way)
    kept = without_traceback(error)
    assert len(chain(kept)) == len(chain(error)) == (1 if way == "none" else 2)
    for one, copied in zip(chain(error), chain(kept), strict=True):
        assert (type(copied), str(copied), vars(copied)) == (type(one), str(one), vars(one))
        assert copied.__traceback__ is None
        assert one.__traceback__ is not None
    assert (kept.__cause__ is None) == (way != "cause")
    assert kept.__suppress_context__ == error.__suppress_context__


def test_of_an_error_that_cannot_be_copied_the_name_is_kept():
    kept = without_traceback(raised(OnlyError(1, "there is one"), "cause"))
    assert "OnlyError" in str(kept)
    assert [one.__traceback__ for one in chain(kept)] == [None, None]


def test_errors_that_led_to_each_other_are_kept_once():
    first, second = raised(ValueError("first"), "none"), raised(ValueError("second"), "none")
    first.__cause__, second.__cause__ = second, first
    kept = without_traceback(first)
    assert str(kept.__cause__) == "second"


@pytest.fixture
def nothing_logged() -> Iterator[None]:
    """pytest keeps what is logged, and an error keeps the frames that it came through."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


class Application:
    """Publishes asynchronously; its handlers belong to the connection and lead back to it."""

    def __init__(self, url: str) -> None:
        self.told: list[str] = []
        self.nc = jetsync.connect(url, on_error=self.on_error)
        self.js = self.nc.jetstream()
        self.js.publish_async("nowhere", b"").exception()

    def on_error(self, event: jetsync.Event) -> None:
        self.told.append(event.kind)

    def fail(self, msg: jetsync.Msg) -> None:
        raise ZeroDivisionError("of a callback")


def is_gone(application: weakref.ref[Application], nc: weakref.ref[jetsync.Connection]) -> bool:
    gc.collect()
    return application() is None and nc() is None


def run(url: str) -> tuple[weakref.ref[Application], weakref.ref[jetsync.Connection]]:
    application = Application(url)
    with application.nc as nc:
        nc.subscribe("failing", callback=application.fail)
        nc.publish("failing")
        wait_until(lambda: application.told, timeout=LONG)
        assert isinstance(nc.last_error, ZeroDivisionError)
        assert nc.last_error.__traceback__ is None
    return weakref.ref(application), weakref.ref(nc)


def test_a_closed_connection_is_freed_with_handlers_that_lead_back_to_its_handles(
    url, nothing_logged
):
    wait_until(partial(is_gone, *run(url)), timeout=LONG)


@pytest.mark.straight
def test_a_good_link_clears_the_last_error():
    """Whatever was wrong before it: what ended the link before, and what a callback raised."""
    with NatsServer(jetstream=False) as server, jetsync.connect(server.url) as nc:
        assert nc.last_error is None

        def fail(msg):
            raise ZeroDivisionError

        with nc.subscribe("bad", callback=fail):
            nc.publish("bad")
            wait_until(lambda: isinstance(nc.last_error, ZeroDivisionError), timeout=20)
        server.restart()
        wait_until(lambda: nc.stats.reconnects == 1 and nc.is_connected, timeout=30)
        wait_until(lambda: nc.last_error is None, timeout=10)
