"""A service that ends has answered what it was asked, and is found no more."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

import jetsync
from jetsync._threads import library_threads
from jetsync.server import NatsServer
from jetsync.services import Service
from tests.harness.waiting import wait_until

LONG = 20


def slow_service(nc, name, **fields):
    """A service whose handler goes on when told to; returns it with the two events."""
    began, go_on = threading.Event(), threading.Event()

    def slow(request):
        began.set()
        go_on.wait(LONG)
        return b"done"

    service = nc.add_service(name, "1.0.0", **fields)
    service.add_endpoint("slow", slow, subject=name)
    nc.flush()
    return service, began, go_on


def in_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    return thread


@pytest.mark.parametrize("end", ["stop", "drain the connection"])
def test_what_was_asked_before_the_end_is_answered(nc, asking, client, name, end):
    done: list[Service] = []
    service, began, go_on = slow_service(nc, name, on_done=done.append)
    inbox = asking.new_inbox()
    with asking.subscribe(inbox) as sub:
        for _ in range(3):
            asking.publish(name, reply=inbox)
        assert began.wait(LONG)
        asking.flush()
        ending = in_thread(
            (lambda: service.stop(timeout=LONG)) if end == "stop" else (lambda: nc.drain(LONG))
        )
        if end == "stop":  # it is found while it still works
            wait_until(lambda: not service._endpoints[0].subscription.is_active)
            assert [one.id for one in client.ping(name)] == [service.id]
            assert not service.is_stopped
        go_on.set()
        assert [sub.next(timeout=LONG).data for _ in range(3)] == [b"done"] * 3
        ending.join(LONG)
    service.wait(LONG)
    assert done == [service]
    assert service.is_stopped
    assert client.ping(name) == []
    with pytest.raises(jetsync.NoRespondersError):
        client.call(name)
    with pytest.raises(jetsync.ConfigError, match="has stopped"):
        service.add_endpoint("late", lambda r: b"")
    assert service.stats().endpoints[0].num_requests == 3


def test_a_handler_that_takes_too_long_is_left_behind_in_time(nc, asking, name):
    """What waits behind it is refused; its own answer is still sent."""
    service, began, go_on = slow_service(nc, name)
    inbox = asking.new_inbox()
    with asking.subscribe(inbox) as sub:
        asking.publish(name, reply=inbox)
        assert began.wait(LONG)
        asking.publish(name, reply=inbox)
        asking.flush()
        with pytest.raises(jetsync.TimeoutError, match=name):
            service.stop(timeout=0.1)
        assert service.is_stopped
        assert sub.next(timeout=LONG).headers["Nats-Service-Error"] == "stopped"
        go_on.set()
        assert sub.next(timeout=LONG).data == b"done"


def test_the_end_of_the_connection_is_the_end_of_the_service(url, name):
    done = threading.Event()
    nc = jetsync.connect(url)
    service = nc.add_service(name, "1.0.0", on_done=lambda service: done.set())
    service.add_endpoint("a", lambda r: b"", subject=name)
    nc.close()
    service.wait(LONG)
    assert done.wait(LONG)
    assert isinstance(service.error, jetsync.ConnectionClosedError)
    service.stop()  # nothing is left to do
    assert service.info().endpoints[0].name == "a"


def test_a_service_is_stopped_in_its_own_handler(nc, client, name):
    stopped = threading.Event()

    def end(request):
        service.stop(ValueError("asked to"), timeout=LONG)
        stopped.set()
        return b"bye"

    service = nc.add_service(name, "1.0.0")
    service.add_endpoint("end", end, subject=name)
    nc.flush()
    assert client.call(name).data == b"bye"
    assert stopped.is_set()
    assert str(service.error) == "asked to"


def test_several_threads_stop_it_once(nc, name):
    done: list[Service] = []
    service = nc.add_service(name, "1.0.0", on_done=done.append)
    for number in range(5):
        service.add_endpoint(f"e{number}", lambda r: b"", subject=f"{name}.{number}")
    threads = [in_thread(lambda: service.stop(timeout=LONG)) for _ in range(4)]
    for thread in threads:
        thread.join(LONG)
    service.stop()
    assert done == [service]


def test_leaving_the_context_stops_it(nc, client, name):
    with nc.add_service(name, "1.0.0") as service:
        nc.flush()
        assert [one.id for one in client.ping(name)] == [service.id]
    assert service.is_stopped
    with pytest.raises(KeyError), nc.add_service(name, "1.0.0") as service:
        raise KeyError("k")
    assert isinstance(service.error, KeyError)


def test_waiting_for_the_end_keeps_its_timeout(nc, name):
    with nc.add_service(name, "1.0.0") as service, pytest.raises(jetsync.TimeoutError):
        service.wait(0.05)


def test_nothing_is_left_of_a_service_that_was_stopped(name):
    before = library_threads()
    with NatsServer(jetstream=False) as server, jetsync.connect(server.url) as nc:
        for _ in range(3):
            with nc.add_service(name, "1.0.0") as service:
                service.add_endpoint("a", lambda r: b"x", subject=name, threads=3)
                nc.flush()
                nc.request(name, timeout=LONG)
        gone = weakref.ref(service)
        del service
        nc.flush()
        (link,) = server.monitor("connz?subs=1")["connections"]
        assert [one for one in link.get("subscriptions_list", []) if "_INBOX" not in one] == []
        left = library_threads() - before
        assert [t.name for t in left if "-service-" in t.name] == []

        def is_gone() -> bool:  # once the threads that dealt with it have let it go
            gc.collect()
            return gone() is None

        wait_until(is_gone)


def test_a_service_goes_on_after_a_reconnect(name):
    with (
        NatsServer(jetstream=False) as server,
        jetsync.connect(server.url, reconnect_wait=0.01) as nc,
        jetsync.connect(server.url, reconnect_wait=0.01) as asking,
    ):
        service = nc.add_service(name, "1.0.0")
        service.add_endpoint("a", lambda r: b"x", subject=name)
        nc.flush()
        server.restart()
        wait_until(lambda: nc.is_connected and asking.is_connected, timeout=LONG)
        nc.flush()
        assert asking.request(name, timeout=LONG).data == b"x"
        assert asking.request(f"$SRV.PING.{name}", timeout=LONG).data.startswith(b"{")
