"""What the server tells between messages: permissions, limits, other servers, its end."""

from __future__ import annotations

import itertools
import threading
import time

import pytest

import jetsync
from jetsync.server import NatsCluster, NatsServer
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until
from tests.reliability.links import await_reconnect, await_server

pytestmark = pytest.mark.timed

KIB = 1024


def users(permissions):
    return f"authorization {{ users: [{{user: a, password: b, permissions: {permissions}}}] }}"


OPEN = users("{publish: {deny: none}, subscribe: {deny: none}}")


def sign_in(server, **options):
    return jetsync.connect(server.url, user="a", password="b", **options)


# -- permissions ---------------------------------------------------------------------------------


def test_permissions_narrowed_by_a_reload_end_the_subscriptions_in_question_only():
    with NatsServer(config=OPEN, jetstream=False) as server, sign_in(server) as nc:
        kept, lost, in_group = (
            nc.subscribe("yes.x"),
            nc.subscribe("no.x"),
            nc.subscribe("no.y", queue="workers"),
        )
        ended: list[Exception] = []

        def wait():
            try:
                lost.next(timeout=60)
            except jetsync.Error as error:
                ended.append(error)

        waiter = threading.Thread(target=wait)
        waiter.start()
        nc.flush(timeout=10)
        server.reload(users('{publish: {deny: none}, subscribe: {deny: "no.>"}}'))
        waiter.join(20)
        assert [type(error) for error in ended] == [jetsync.PermissionsError]
        with pytest.raises(jetsync.PermissionsError, match=r"no\.y"):
            in_group.next(timeout=20)
        nc.publish("yes.x", b"still")
        assert kept.next(timeout=10).data == b"still"
        assert not lost.is_active
        # A reconnect does not ask for what was refused again.
        nc.force_reconnect()
        await_reconnect(nc, 1)
        nc.publish("yes.x", b"and on")
        assert kept.next(timeout=10).data == b"and on"


def test_an_inbox_that_is_refused_fails_requests_with_the_reason_and_is_tried_again():
    with (
        NatsServer(
            config=users('{publish: ">", subscribe: {deny: "_INBOX.>"}}'), jetstream=False
        ) as server,
        sign_in(server) as nc,
    ):
        nc.subscribe("echo", callback=lambda msg: msg.respond(b"yes"))
        # Often, as the refusal may come before, while and after the request is noted as pending.
        for _ in range(scaled(300, 10_000)):
            with pytest.raises(jetsync.PermissionsError):
                nc.request("echo", timeout=20)
        server.reload(OPEN)
        wait_until(lambda: nc.is_connected, timeout=20)
        assert nc.request("echo", timeout=20).data == b"yes"


def test_every_refused_subscription_hears_of_it_however_quick_the_answer():
    config = users('{publish: ">", subscribe: {deny: "no.>"}}')
    with NatsServer(config=config, jetstream=False) as server, sign_in(server) as nc:
        for number in range(scaled(300, 10_000)):
            sub = nc.subscribe("no.x", queue="q" if number % 2 else None)
            with pytest.raises(jetsync.PermissionsError):
                sub.next(timeout=20)


def test_a_refused_request_is_the_one_that_hears_of_it():
    config = users('{publish: {deny: "no.>"}, subscribe: ">"}')
    with NatsServer(config=config, jetstream=False) as server, sign_in(server) as nc:
        nc.subscribe("yes", callback=lambda msg: threading.Timer(0.3, msg.respond).start())
        results: dict[str, object] = {}

        def ask(subject):
            try:
                results[subject] = nc.request(subject, timeout=20).data
            except jetsync.Error as error:
                results[subject] = type(error)

        threads = [threading.Thread(target=ask, args=(s,)) for s in ("yes", "no.a", "no.b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        refused = jetsync.PermissionsError
        assert results == {"yes": b"", "no.a": refused, "no.b": refused}
        with pytest.raises(refused):
            list(nc.request_many("no.c", timeout=20))


# -- max_payload ---------------------------------------------------------------------------------


def test_max_payload_lowered_by_a_reload_costs_one_link_and_is_known_then():
    """The server does not tell: the first publish that is too large ends the link."""
    told: list[BaseException | None] = []
    with (
        NatsServer(config="max_payload: 512KB", jetstream=False) as server,
        jetsync.connect(server.url, on_error=lambda event: told.append(event.error)) as nc,
    ):
        sub = nc.subscribe("a")
        nc.flush(timeout=10)
        server.reload("max_payload: 1KB")
        nc.publish("a", b"x" * 100 * KIB)
        wait_until(lambda: nc.stats.reconnects == 1 and nc.is_connected, timeout=20)
        wait_until(lambda: nc.max_payload == KIB, timeout=20)
        assert [type(error) for error in told] == [jetsync.MaxPayloadError]
        with pytest.raises(jetsync.MaxPayloadError):
            nc.publish("a", b"x" * 2 * KIB)
        nc.publish("a", b"small")
        assert sub.next(timeout=10).data == b"small"
        assert nc.stats.reconnects == 1


def test_what_waits_in_the_buffer_is_checked_against_the_next_server():
    """A message too large for it is left out and told of; its neighbours are sent."""
    told: list[BaseException | None] = []
    with (
        NatsServer(config="max_payload: 512KB", jetstream=False) as large,
        NatsServer(config="max_payload: 1KB", jetstream=False) as small,
    ):
        small.kill()
        with jetsync.connect(
            [large.url, small.url],
            randomize_servers=False,
            on_error=lambda event: told.append(event.error),
        ) as nc:
            sub = nc.subscribe("a")
            nc.flush(timeout=10)
            large.kill()
            wait_until(lambda: not nc.is_connected, timeout=20)
            for data in (b"first", b"x" * 2 * KIB, b"second", b"y" * 100 * KIB, b"third"):
                nc.publish("a", data)
            small.start()
            assert [sub.next(timeout=20).data for _ in range(3)] == [b"first", b"second", b"third"]
            assert nc.stats.reconnects == 1
            wait_until(lambda: told, timeout=10)
            assert {type(error) for error in told} == {jetsync.MaxPayloadError}


# -- other servers -------------------------------------------------------------------------------


@pytest.fixture
def three():
    with NatsCluster(3, jetstream=False, config="lame_duck_grace_period: 5s") as one:
        yield one


def test_servers_that_were_only_told_of_are_used_when_the_first_is_gone(three):
    told: list[str | None] = []
    with jetsync.connect(
        three.servers[0].url, on_discovered_servers=lambda event: told.append(event.server)
    ) as nc:
        sub = nc.subscribe("a")
        nc.flush(timeout=10)
        for number in range(2):
            gone = next(s for s in three.servers if s.url == str(nc.connected_url))
            gone.kill()
            await_server(nc, gone.url, leaves=True)
            nc.publish("a", b"%d" % number)
            assert sub.next(timeout=10).data == b"%d" % number
        names = ", ".join(filter(None, told))
        for server in three.servers[1:]:
            assert f":{server.port}" in names


def test_ignored_when_asked_to(three):
    with jetsync.connect(
        three.servers[0].url, ignore_discovered_servers=True, max_reconnects=3, reconnect_wait=0.01
    ) as nc:
        three.servers[0].kill()
        wait_until(lambda: nc.is_closed, timeout=20)


class Stream:
    """Numbers published over one connection, and when they came at another one."""

    def __init__(self, nc, other):
        self._nc = nc
        self._stop = threading.Event()
        self.sent = 0
        self.failed: list[Exception] = []
        self.numbers: list[int] = []
        self.moments: list[float] = []
        other.subscribe("t", callback=self._arrived)
        other.flush(timeout=10)
        self._thread = threading.Thread(target=self._publish)
        self._thread.start()

    def _arrived(self, msg):
        self.moments.append(time.monotonic())
        self.numbers.append(int(msg.data))

    def _publish(self):
        while not self._stop.wait(0.002):
            try:
                self._nc.publish("t", b"%d" % self.sent)
            except jetsync.Error as error:
                self.failed.append(error)
            else:
                self.sent += 1

    def goes_on(self):
        enough = len(self.numbers) + 50
        wait_until(lambda: len(self.numbers) > enough, timeout=20)

    def end(self):
        self._stop.set()
        self._thread.join(10)
        wait_until(lambda: self.numbers[-1] == self.sent - 1, timeout=20)


def test_a_lame_duck_is_left_early_without_a_failed_publish(three, record_figure):
    """G20, core form: the connection has moved before the node hangs up; nothing comes twice."""
    moved, gaps, lost, failed = [], [], 0, 0
    first = three.servers[0]
    for _ in range(scaled(1, 10)):
        told: list[str | None] = []
        with (
            jetsync.connect(three.urls[1:]) as other,
            jetsync.connect(first.url, on_lame_duck=lambda event: told.append(event.server)) as nc,  # noqa: B023
        ):
            stream = Stream(nc, other)
            stream.goes_on()
            begun = time.monotonic()
            first.lame_duck()
            await_server(nc, first.url, leaves=True)
            moved.append(time.monotonic() - begun)
            assert first.is_running, "moved while the old server was still there"
            stream.goes_on()
            stream.end()
        assert told
        assert len(set(stream.numbers)) == len(stream.numbers)
        gaps.append(max(b - a for a, b in itertools.pairwise(stream.moments)))
        lost += stream.sent - len(stream.numbers)
        failed += len(stream.failed)
        first.kill()
        first.start()
    record_figure("lame duck: moved after", max(moved), "s")
    record_figure("G20 core: longest gap in delivery", max(gaps), "s", goal="<= 1.5 s")
    record_figure("lame duck: messages lost on the way", lost)
    record_figure("G20 core: failed publishes", failed, goal="0")
    assert failed == 0
    assert max(gaps) <= 1.5


def test_force_reconnect_goes_to_another_server_and_loses_no_subscription(server, second):
    with jetsync.connect([server.url, second.url], randomize_servers=False) as nc:
        sub = nc.subscribe("a")
        seen = []
        for number in range(scaled(6, 40)):
            seen.append(str(nc.connected_url))
            nc.force_reconnect()
            await_reconnect(nc, number + 1)
            nc.publish("a", b"%d" % number)
            assert sub.next(timeout=20).data == b"%d" % number
        assert seen[:4] == [server.url, second.url, server.url, second.url]
