"""Events: told outside of the threads that receive, bounded, and whatever user code raises."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any

import pytest

import jetsync
from jetsync._core.inbound import Inbound
from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import Outbound
from jetsync.client.events import Event, EventDispatcher
from jetsync.client.routes import Routes
from jetsync.server import NatsServer
from tests.harness.conditioner import Link
from tests.harness.fakeserver import FakeServer
from tests.harness.insides import left_open
from tests.harness.waiting import wait_until
from tests.reliability.links import await_reconnect

LONG = 20.0


def test_a_callback_that_exits_is_reported_once_and_gets_the_next_message(url, caplog):
    """``sys.exit()`` ends a program in the main thread, and nothing in another."""
    told: list[jetsync.Event] = []
    with jetsync.connect(url, on_error=told.append) as nc:
        got = []

        def callback(msg):
            got.append(msg.data)
            if msg.data == b"0":
                sys.exit(3)

        with caplog.at_level(logging.WARNING, logger="jetsync"):
            sub = nc.subscribe("exit", callback=callback)
            for number in range(3):
                nc.publish("exit", b"%d" % number)
            wait_until(lambda: len(got) == 3, timeout=LONG)
            wait_until(lambda: told, timeout=LONG)
        assert sub.is_active
        assert [type(event.error) for event in told] == [SystemExit]
        traces = [record for record in caplog.records if record.exc_info]
        assert len(traces) == 1
        assert "callback" in caplog.text


def test_an_event_handler_that_exits_harms_nothing(url):
    told: list[str] = []

    def handler(event):
        told.append(event.kind)
        raise SystemExit

    with jetsync.connect(url, on_disconnected=handler, on_reconnected=handler) as nc:
        for number in range(3):
            nc.force_reconnect()
            await_reconnect(nc, number + 1)
    assert told == ["disconnected", "reconnected"] * 3


def test_a_log_handler_may_use_the_connection(url):
    """It runs outside of the thread that receives, with handlers for events and without."""
    answered = []

    class Asking(logging.Handler):
        def emit(self, record):
            if nc is not None and not answered:
                nc.flush(timeout=5)
                answered.append(nc.request("echo", b"x", timeout=5).data)

    logger, handler, nc = logging.getLogger("jetsync"), Asking(), None
    logger.addHandler(handler)
    try:
        for on_error in (None, lambda event: None):
            answered.clear()
            with jetsync.connect(url, on_error=on_error) as nc:
                nc.subscribe("echo", callback=lambda msg: msg.respond(msg.data))
                nc.subscribe("bad", callback=lambda msg: 1 / 0)
                nc.publish("bad")
                nc.flush(timeout=LONG)
                wait_until(lambda: answered == [b"x"], timeout=LONG)
            nc = None
    finally:
        logger.removeHandler(handler)


def test_errors_that_wait_for_a_slow_handler_are_bounded_and_counted():
    go, told = threading.Event(), []

    def slow(event):
        told.append(event)
        go.wait(LONG)

    later = []
    dispatcher = EventDispatcher("test", {"error": slow}, None, later.append)
    for number in range(5000):
        try:
            payload = bytearray(1000)
            raise ValueError(number, len(payload))
        except ValueError as error:
            dispatcher.post(Event("error", None, error))  # type: ignore[arg-type]
    assert dispatcher._queue.qsize() == 1000
    for function in later:
        function()
    go.set()
    dispatcher.close(LONG)
    assert len(told) == 1001
    assert "4000 events were dropped" in str(told[-1].error)


def test_waiting_errors_hold_no_messages(nc):
    """Their tracebacks keep the lines, not the variables, once several wait."""
    freed = []

    class Payload:
        def __del__(self):
            freed.append(1)

    go = threading.Event()
    later = []
    dispatcher = EventDispatcher("test", {"error": lambda event: go.wait(LONG)}, None, later.append)

    def fail():
        message = Payload()
        raise ValueError(str(message))

    for _ in range(100):
        try:
            fail()
        except ValueError as error:
            dispatcher.post(Event("error", nc, error))
    assert len(freed) >= 80
    go.set()
    for function in later:
        function()
    dispatcher.close(LONG)


def test_a_server_that_repeats_its_farewell_is_heard_once():
    """Each time would take a question, a waiter and a timer."""
    asked, answered = [], threading.Event()

    def script(peer):
        peer.handshake()
        for _ in range(500):
            peer.send_info(ldm=True)
        peer.send(b"PING\r\n")
        while (line := peer.read_line()) != b"PONG":
            asked.append(line)
        answered.set()
        peer.hold()

    told = []
    with FakeServer(script) as fake:
        nc = jetsync.connect(
            [fake.url, "nats://127.0.0.1:1"], randomize_servers=False, on_lame_duck=told.append
        )
        try:
            assert answered.wait(LONG)
            wait_until(lambda: told, timeout=LONG)
        finally:
            nc.close()
    assert asked == [b"PING"]
    assert len(told) == 1


# -- a link that is dead in one direction ----------------------------------------------------------


def test_a_link_on_which_the_server_does_not_hear_us_is_left(url):
    """Messages keep arriving, but no answer to a PING."""
    stop = threading.Event()
    with Link(url) as link, jetsync.connect(url) as sender:

        def publish():
            while not stop.wait(0.02):
                sender.publish("steady", b"x")

        with jetsync.connect(link.url, ping_interval=0.2, max_pings_outstanding=2) as nc:
            nc.subscribe("steady", callback=lambda msg: None)
            nc.flush(timeout=LONG)
            thread = threading.Thread(target=publish)
            thread.start()
            try:
                link.stall(way="to_server")
                wait_until(
                    lambda: isinstance(nc.last_error, jetsync.StaleConnectionError), timeout=LONG
                )
                link.resume()
                wait_until(lambda: nc.is_connected and nc.stats.reconnects, timeout=LONG)
            finally:
                stop.set()
                thread.join()


def test_a_large_message_on_a_slow_link_is_a_sign_of_life(url):
    """However long it takes, and although the PONG waits behind it: 5 s, of which one or two
    without a byte would be an end. A busy machine, or a proxy on it, may rest for half a second.
    """
    size = 1_000_000
    with (
        Link(url, bandwidth=200_000) as link,
        jetsync.connect(url) as sender,
        jetsync.connect(link.url, ping_interval=0.5, max_pings_outstanding=2) as nc,
    ):
        sub = nc.subscribe("large")
        nc.flush(timeout=LONG)
        sender.publish("large", bytes(size))
        sender.flush(timeout=LONG)
        assert len(sub.next(timeout=60).data) == size
        assert nc.stats.reconnects == 0


# -- what the server refuses -----------------------------------------------------------------------


class Unwalked(dict[int, Any]):
    """A table in which entries are looked up only."""

    def _walk(self):
        raise AssertionError("all subscriptions were looked at for one of them")

    __iter__ = keys = values = items = copy = _walk


@pytest.mark.parametrize("operation", ["subscribe", "publish"])
def test_a_refused_subject_is_found_without_a_look_at_the_others(operation):
    outbound = Outbound(offline_limit=1 << 20)
    routes = Routes(Inbound(outbound), outbound, lambda _inbox, _end: None)
    boxes = [Mailbox() for _ in range(3)]
    inboxes = [
        routes.open(f"inbox.{n}", None, box, asks=f"asked.{n}") for n, box in enumerate(boxes)
    ]
    routes.table = Unwalked(routes.table)
    subject = "inbox.1" if operation == "subscribe" else "asked.1"
    error = jetsync.PermissionsError("no", subject=subject, operation=operation)
    routes.refused(error)
    assert [box.error for box in boxes] == [None, error, None]
    assert len(inboxes) == 3  # one that is dropped is closed


@pytest.mark.parametrize("count", [3000])
def test_many_refused_subscriptions_end_and_no_other(count):
    ready = threading.Event()

    def script(peer):
        peer.handshake()
        for _ in range(2 * count):
            peer.expect(b"SUB")
        lines = [
            b"-ERR 'Permissions Violation for Subscription to \"bad.%d\"'\r\n" % n
            for n in range(count)
        ]
        peer.send(b"".join(lines))
        ready.set()
        peer.serve()

    with FakeServer(script) as fake, jetsync.connect(fake.url) as nc:
        good = [nc.subscribe(f"good.{n}") for n in range(count)]
        bad = [nc.subscribe(f"bad.{n}") for n in range(count)]
        wait_until(lambda: not any(sub.is_active for sub in bad), timeout=60)
        assert all(sub.is_active for sub in good)
        assert left_open(nc)["subscriptions"] == count


def test_of_subscriptions_at_the_limit_the_ones_that_the_server_refused_end():
    """It does not say which. Here one is closed meanwhile, and another one takes its room."""

    def script(peer):
        peer.handshake()
        lines = []
        while b"UNSUB" not in (line := peer.read_line()):  # a, b, c: the third is one too many
            lines.append(line)
        assert [line.split()[1] for line in lines] == [b"a", b"b", b"c"]
        rest = [peer.read_line(), peer.read_line(), peer.read_line()]
        assert rest[0] == b"PING"  # what is refused before it is one of the first three
        assert rest[1].startswith(b"SUB d ")
        peer.send(b"-ERR 'maximum subscriptions exceeded'\r\nPONG\r\nPONG\r\n")
        peer.serve()

    with FakeServer(script) as fake, jetsync.connect(fake.url) as nc:
        a, b, c = (nc.subscribe(name) for name in "abc")
        a.unsubscribe()
        d = nc.subscribe("d")
        nc.flush(timeout=LONG)
        with pytest.raises(jetsync.ServerError, match=r"'c'.*maximum subscriptions"):
            c.next(timeout=LONG)
        assert (b.is_active, d.is_active) == (True, True)


def test_a_subscription_that_was_closed_before_its_refusal_came_takes_no_other_along():
    def script(peer):
        peer.handshake()
        while not peer.read_line().startswith(b"UNSUB"):
            pass
        peer.send(b"-ERR 'maximum subscriptions exceeded'\r\n")
        peer.serve()

    told = []
    with FakeServer(script) as fake, jetsync.connect(fake.url, on_error=told.append) as nc:
        kept = nc.subscribe("kept")
        nc.subscribe("refused").unsubscribe()
        wait_until(lambda: told, timeout=LONG)
        assert kept.is_active


def test_the_limit_of_subscriptions_ends_those_beyond_it_and_nothing_else():
    """Requests fail with the reason at once, and work again when there is room."""
    with (
        NatsServer(jetstream=False, config={"max_subscriptions": 10}) as server,
        jetsync.connect(server.url) as nc,
    ):
        subs = [nc.subscribe(f"a.{n}") for n in range(10)]
        nc.flush(timeout=LONG)
        with pytest.raises(jetsync.ServerError, match="maximum subscriptions"):
            nc.request("unheard", timeout=LONG)
        more = [nc.subscribe(f"b.{n}") for n in range(3)]
        nc.flush(timeout=LONG)
        wait_until(lambda: not any(sub.is_active for sub in more), timeout=LONG)
        with pytest.raises(jetsync.ServerError, match="maximum subscriptions"):
            more[0].next(timeout=LONG)
        assert all(sub.is_active for sub in subs)
        for sub in subs[:5]:
            sub.unsubscribe()
        with pytest.raises(jetsync.NoRespondersError):
            nc.request("unheard", timeout=LONG)
        nc.publish("a.9", b"x")
        assert subs[9].next(timeout=LONG).data == b"x"
