"""A service answers what it was asked, once, and says in its errors what its callers need."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

import jetsync
from jetsync._threads import library_threads
from jetsync.prometheus import render
from jetsync.services import ServiceRequest
from tests.harness.waiting import wait_until

LONG = 20


def test_an_endpoint_answers_with_what_its_handler_returns(nc, client, name):
    seen: list[ServiceRequest] = []
    service = nc.add_service(name, "1.0.0")

    @service.endpoint(subject=f"{name}.*")
    def upper(request: ServiceRequest) -> bytes:
        seen.append(request)
        return request.data.upper()

    nc.flush()
    msg = client.call(f"{name}.x", b"text", headers={"A": "b"})
    assert msg.data == b"TEXT"
    assert (seen[0].subject, seen[0].data, seen[0].headers["A"]) == (f"{name}.x", b"text", "b")
    assert [endpoint.name for endpoint in service.info().endpoints] == ["upper"]


def test_a_handler_may_answer_itself_also_later_and_from_another_thread(nc, client, name):
    threads = []

    def later(request):
        thread = threading.Thread(target=request.respond_json, args=({"a": [1, None]},))
        threads.append(thread)
        thread.start()

    service = nc.add_service(name, "1.0.0")
    service.add_endpoint("later", later, subject=f"{name}.later")
    service.add_endpoint(
        "now", lambda r: r.respond(b"x", headers={"B": "c"}), subject=f"{name}.now"
    )
    nc.flush()
    assert client.call(f"{name}.later").data == b'{"a": [1, null]}'
    assert client.call(f"{name}.now").headers["B"] == "c"
    threads[0].join(LONG)


def test_the_subjects_of_endpoints_begin_with_those_of_their_groups(nc, client, name):
    service = nc.add_service(name, "1.0.0")
    outer = service.add_group(name)
    inner = outer.add_group("v2").add_group("")

    @outer.endpoint
    def one(request):
        return b"1"

    @inner.endpoint("two", subject="b.>")
    def second(request):
        return b"2"

    nc.flush()
    assert client.call(f"{name}.one").data == b"1"
    assert client.call(f"{name}.v2.b.c.d").data == b"2"
    assert [(e.name, e.subject) for e in service.info().endpoints] == [
        ("one", f"{name}.one"),
        ("two", f"{name}.v2.b.>"),
    ]


def test_a_service_error_is_the_answer(nc, client, name):
    def refuse(request):
        raise jetsync.ServiceError(404, "no such\r\nthing: ü", b"details")

    service = nc.add_service(name, "1.0.0")
    service.add_endpoint("refuse", refuse, subject=name)
    service.add_endpoint(
        "both",
        lambda r: r.respond_error(7, "odd", b"d", headers={"A": "b"}),
        subject=f"{name}.both",
    )
    nc.flush()
    with pytest.raises(jetsync.ServiceError) as caught:
        client.call(name)
    assert caught.value.code == 404
    assert caught.value.description == "no such\\r\\nthing: ü"
    assert caught.value.data == b"details"
    with pytest.raises(jetsync.ServiceError, match="7: odd"):
        client.call(f"{name}.both")
    assert [e.last_error for e in service.stats().endpoints] == [
        "404:no such\\r\\nthing: ü",
        "7:odd",
    ]


@pytest.mark.parametrize("expose", [False, True])
def test_any_other_error_is_told_here_and_hidden_there(nc, client, name, expose):
    """Unless the service says otherwise."""
    told: list[tuple[BaseException, ServiceRequest | None]] = []
    service = nc.add_service(
        name, "1.0.0", expose_errors=expose, on_error=lambda e, r: told.append((e, r))
    )
    service.add_endpoint("fail", lambda request: 1 // 0, subject=name)
    nc.flush()
    with pytest.raises(jetsync.ServiceError) as caught:
        client.call(name, b"data")
    text = "ZeroDivisionError: integer division or modulo by zero" if expose else "internal error"
    assert (caught.value.code, caught.value.description) == (500, text)
    ((error, request),) = told
    assert error.__traceback__ is not None
    assert request is not None
    assert request.data == b"data"


def test_a_service_gives_its_numbers_to_what_collects_them(nc, client, name):
    """Endpoints of one name are one series."""
    service = nc.add_service(name, "1.0.0", on_error=lambda *_: None)
    service.add_endpoint("ok", lambda request: b"", subject=f"{name}.1")
    service.add_group(name).add_endpoint("ok", lambda request: b"", subject="2")
    service.add_endpoint("fail", lambda request: 1 // 0, subject=f"{name}.3")
    nc.flush()
    client.call(f"{name}.1", b"")
    client.call(f"{name}.2", b"")
    with pytest.raises(jetsync.ServiceError):
        client.call(f"{name}.3", b"")
    found = {(one.name, one.labels["endpoint"]): one for one in service.measurements()}
    values = {key: one.value for key, one in found.items()}
    spent = "jetsync_service_duration_seconds"
    assert values.pop((spent, "ok")) > 0
    assert values.pop((spent, "fail")) > 0
    assert values == {
        ("jetsync_service_requests_total", "ok"): 2,
        ("jetsync_service_errors_total", "ok"): 0,
        ("jetsync_service_requests_total", "fail"): 1,
        ("jetsync_service_errors_total", "fail"): 1,
    }
    assert all(set(one.labels) == {"connection", "service", "endpoint"} for one in found.values())
    assert 'service="' + name + '"' in render(service)


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def test_an_error_without_a_text_ends_no_endpoint(nc, client, name):
    def fail(request: ServiceRequest) -> bytes:
        if request.data:
            return b"well"
        raise Speechless

    service = nc.add_service(name, "1.0.0", expose_errors=True)
    service.add_endpoint("fail", fail, subject=name)
    nc.flush()
    with pytest.raises(jetsync.ServiceError) as caught:
        client.call(name, b"")
    assert (caught.value.code, caught.value.description) == (500, "Speechless")
    assert client.call(name, b"data").data == b"well"


def test_without_a_handler_for_errors_the_connection_hears_of_them(url, client, name):
    wrong: Any = lambda request: "text"  # noqa: E731 - a handler that types would refuse
    told: list[jetsync.Event] = []
    with jetsync.connect(url, on_error=told.append) as nc:
        service = nc.add_service(name, "1.0.0")
        service.add_endpoint("fail", wrong, subject=name)
        nc.flush()
        with pytest.raises(jetsync.ServiceError, match="500: internal error"):
            client.call(name)
        wait_until(lambda: told)
    assert "must return bytes or None, not str" in str(told[0].error)


def test_a_second_answer_is_ignored_with_a_warning(nc, client, asking, name, caplog):
    def twice(request):
        request.respond(b"first")
        request.respond_error(500, "second")
        return b"third"

    service = nc.add_service(name, "1.0.0")
    service.add_endpoint("twice", twice, subject=name)
    nc.flush()
    with caplog.at_level(logging.WARNING, "jetsync"):
        answers = list(asking.request_many(name, stall=0.2, timeout=LONG))
    assert [msg.data for msg in answers] == [b"first"]
    assert caplog.text.count("answered twice") == 2
    assert service.stats().endpoints[0].num_errors == 0


def test_an_answer_that_is_too_large_becomes_an_error(nc, client, name):
    service = nc.add_service(name, "1.0.0", on_error=lambda error, request: None)
    service.add_endpoint("large", lambda r: bytes(nc.max_payload + 1), subject=name)
    nc.flush()
    with pytest.raises(jetsync.ServiceError, match="500: internal error"):
        client.call(name)


@pytest.mark.parametrize("data", ["text", bytes(2 * 2**20)], ids=["text", "large"])
def test_an_error_that_cannot_be_sent_becomes_another_one(nc, client, name, data: Any):
    """The requester would wait until its time is over."""

    def refuse(request: ServiceRequest) -> None:
        raise jetsync.ServiceError(404, "no such thing", data)

    told: list[BaseException] = []
    service = nc.add_service(name, "1.0.0", on_error=lambda error, request: told.append(error))
    service.add_endpoint("refuse", refuse, subject=name)
    nc.flush()
    with pytest.raises(jetsync.ServiceError, match="500: internal error"):
        client.call(name, timeout=5)
    assert isinstance(told[0], (jetsync.ConfigError, jetsync.MaxPayloadError))
    assert service.stats().endpoints[0].num_errors == 1


def test_an_endless_description_is_cut_and_hides_no_statistics(nc, client, name):
    def fail(request: ServiceRequest) -> None:
        raise ValueError("\n" * 2**20)

    service = nc.add_service(
        name, "1.0.0", expose_errors=True, on_error=lambda error, request: None
    )
    service.add_endpoint("fail", fail, subject=name)
    nc.flush()
    with pytest.raises(jetsync.ServiceError) as caught:
        client.call(name, timeout=5)
    assert caught.value.description.startswith("ValueError: \\n\\n")
    assert len(caught.value.description) == 4096
    (stats,) = client.stats(name, max_responses=1)
    assert stats.endpoints[0].last_error == f"500:{caught.value.description}"


def test_a_message_that_wants_no_answer_is_handled(nc, asking, name):
    came = threading.Event()

    def handle(request):
        came.set()
        return b"for none"

    service = nc.add_service(name, "1.0.0")
    service.add_endpoint("handle", handle, subject=name)
    nc.flush()
    asking.publish(name, b"x")
    assert came.wait(LONG)
    service.stop()
    assert service.stats().endpoints[0].num_errors == 0


def test_instances_share_the_requests_of_a_queue_group(nc, asking, name):
    """The nearest choice counts: the endpoint's, its group's, the service's; None is no group."""
    services = [nc.add_service(name, "1.0.0") for _ in range(2)]
    for service in services:
        service.add_endpoint("one", lambda r: b"", subject=f"{name}.one")
        group = service.add_group(name, queue_group=None)
        group.add_endpoint("all", lambda r: b"")
        group.add_endpoint("own", lambda r: b"", queue_group="own")
    plain = nc.add_service(name, "1.0.0", queue_group=None)
    plain.add_endpoint("plain", lambda r: b"", subject=f"{name}.plain")
    nc.flush()
    assert [e.queue_group for e in services[0].info().endpoints] == ["q", None, "own"]
    assert plain.info().endpoints[0].queue_group is None

    def answers(what):
        return len(list(asking.request_many(f"{name}.{what}", stall=0.8, timeout=LONG)))

    assert [answers(what) for what in ("one", "all", "own", "plain")] == [1, 2, 1, 1]
    for _ in range(50):
        asking.request(f"{name}.one", timeout=LONG)
    counts = [service.stats().endpoints[0].num_requests for service in services]
    assert sum(counts) == 51
    assert min(counts) > 0


def test_so_many_handlers_run_at_once_as_threads_were_given(nc, asking, name):
    """Four that wait for each other come to an end, and a fifth waits for one of them."""
    before = library_threads()
    together = threading.Barrier(4)
    service = nc.add_service(name, "1.0.0")
    service.add_endpoint("meet", lambda r: b"%d" % together.wait(LONG), subject=name, threads=4)
    nc.flush()
    inbox = asking.new_inbox()
    with asking.subscribe(inbox) as sub:
        for _ in range(8):
            asking.publish(name, reply=inbox)
        found = sorted(sub.next(timeout=LONG).data for _ in range(8))
        assert found == [b"0", b"0", b"1", b"1", b"2", b"2", b"3", b"3"]
    started = [t for t in library_threads() - before if "-service-" in t.name]
    assert len(started) == 4


def test_too_many_that_wait_are_told_at_once(nc, asking, name):
    """The handler is busy with one, two wait, and the fourth hears of it."""
    go_on = threading.Event()
    began = threading.Event()

    def slow(request):
        began.set()
        go_on.wait(LONG)
        return b"done"

    service = nc.add_service(name, "1.0.0", max_pending=2)
    service.add_endpoint("slow", slow, subject=name)
    nc.flush()
    inbox = asking.new_inbox()
    with asking.subscribe(inbox) as sub:
        asking.publish(name, reply=inbox)
        assert began.wait(LONG)
        for _ in range(3):
            asking.publish(name, reply=inbox)
        refused = sub.next(timeout=LONG)
        assert refused.headers["Nats-Service-Error-Code"] == "503"
        assert refused.headers["Nats-Service-Error"] == "overloaded"
        go_on.set()
        assert [sub.next(timeout=LONG).data for _ in range(3)] == [b"done"] * 3
    (stats,) = service.stats().endpoints
    assert (stats.num_requests, stats.num_errors, stats.last_error) == (4, 1, "503:overloaded")


def test_requests_that_wait_take_no_more_memory_than_a_subscription_may(url, asking, name):
    began, go_on = threading.Event(), threading.Event()

    def slow(request):
        began.set()
        return b"%d" % go_on.wait(LONG)

    with jetsync.connect(url, pending_bytes_limit=100_000) as nc:
        service = nc.add_service(name, "1.0.0")
        endpoint = service.add_endpoint("slow", slow, subject=name)
        nc.flush()
        inbox = asking.new_inbox()
        with asking.subscribe(inbox) as sub:

            def admitted(number: int) -> None:
                wait_until(lambda: endpoint.stats().num_requests == number, timeout=LONG)

            for number in range(1, 6):
                asking.publish(name, bytes(40_000), reply=inbox)
                # One at a time: the subscription itself holds no more either.
                admitted(number)
                assert began.wait(LONG)
            codes = [sub.next(timeout=LONG).headers["Nats-Service-Error-Code"] for _ in range(2)]
            assert codes == ["503", "503"]
            go_on.set()
            assert [sub.next(timeout=LONG).data for _ in range(3)] == [b"1"] * 3


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"name": "a b"}, "service"),
        ({"name": ""}, "service"),
        ({"name": 7}, "service"),
        ({"version": "1.0"}, "1.0.0"),
        ({"version": "01.0.0"}, "1.0.0"),
        ({"version": "1.0.0\n"}, "1.0.0"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"metadata": ["a"]}, "metadata"),
        ({"description": None}, "description"),
        ({"threads": 0}, "threads"),
        ({"max_pending": 0}, "max_pending"),
        ({"queue_group": "a b"}, "queue"),
        ({"queue_group": 7}, "queue_group"),
        ({"prefix": "a.>"}, "wildcard"),
        ({"on_done": 7}, "on_done must be a function"),
    ],
)
def test_what_no_service_can_have_is_refused(nc, fields, text):
    given = {"name": "a", "version": "1.0.0"} | fields
    with pytest.raises(jetsync.ConfigError, match=text):
        nc.add_service(given.pop("name"), given.pop("version"), **given)


@pytest.mark.parametrize("version", ["0.0.0", "1.2.3-alpha.1+b.2", "10.20.30", "1.0.0+1"])
def test_versions_are_semantic(nc, name, version):
    with nc.add_service(name, version) as service:
        assert service.version == version


def test_what_no_endpoint_can_have_is_refused(nc, name):
    service = nc.add_service(name, "1.0.0")

    async def coroutine(request):
        return b""

    cases: list[tuple[dict[str, Any], str]] = [
        ({"name": "a.b"}, "endpoint"),
        ({"subject": "a..b"}, "empty token"),
        ({"subject": "a b"}, "hold"),
        ({"handler": None}, "the handler must be a function"),
        ({"handler": coroutine}, "ordinary function"),
        ({"threads": True}, "threads"),
        ({"queue_group": ""}, "empty"),
        ({"metadata": {1: "a"}}, "metadata"),
    ]
    for fields, text in cases:
        given: dict[str, Any] = {"name": "a", "handler": lambda r: b""} | fields
        with pytest.raises(jetsync.ConfigError, match=text):
            service.add_endpoint(given.pop("name"), given.pop("handler"), **given)
    with pytest.raises(jetsync.ConfigError, match="'>'"):
        service.add_group("a.>")
    assert service.info().endpoints == ()


def test_service_errors_are_checked_and_travel(name):
    import pickle

    error = jetsync.ServiceError(404, "not\nthere", b"x")
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, again.description, again.data) == (404, "not\nthere", b"x")
    assert str(again) == "404: not\\nthere"
    with pytest.raises(jetsync.ConfigError, match="int"):
        jetsync.ServiceError("404", "x")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], object()])
def test_an_answer_that_is_no_json_is_an_error(nc, client, name, value):
    told: list[BaseException] = []
    service = nc.add_service(name, "1.0.0", on_error=lambda error, request: told.append(error))
    service.add_endpoint("odd", lambda request: request.respond_json(value), subject=f"{name}.odd")
    nc.flush()
    with pytest.raises(jetsync.ServiceError, match="500"):
        client.call(f"{name}.odd")
    wait_until(lambda: told)
    assert "cannot be written as JSON" in str(told[0])
