"""Celery's results in a bucket, without a worker."""

from __future__ import annotations

import itertools
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery, states
from celery.exceptions import BackendStoreError
from celery.exceptions import TimeoutError as CeleryTimeoutError

import jetsync
from jetsync.contrib.celery import KeyValueBackend
from jetsync.server import NatsServer
from tests.harness.waiting import wait_until

_numbers = itertools.count(1)


def backend_of(server: NatsServer, **config: Any) -> KeyValueBackend:
    """The backend of an application that is configured by its URL."""
    url = f"jetsync+{server.url}/results{next(_numbers)}"
    app = Celery("results", backend=url, set_as_current=False)
    app.conf.update(result_backend_transport_options={"storage": "memory"}, **config)
    backend = app.backend
    assert isinstance(backend, KeyValueBackend)
    return backend


@pytest.fixture
def backend(server: NatsServer) -> Iterator[KeyValueBackend]:
    made = backend_of(server)
    yield made
    close(made)


def close(backend: KeyValueBackend) -> None:
    jetsync.shared_connection(**backend.fields).close()


def test_a_result_is_kept_whatever_its_task_is_called(backend):
    for task_id in ("6d1c1f9e-2f63", "a b/ü*>", "x.y"):
        assert backend.get_task_meta(task_id)["status"] == states.PENDING
        backend.store_result(task_id, {"a": [1, None]}, states.SUCCESS)
        assert backend.get_task_meta(task_id, cache=False)["result"] == {"a": [1, None]}
        backend.forget(task_id)
        assert backend.get_task_meta(task_id, cache=False)["status"] == states.PENDING


def test_several_values_come_in_the_order_of_their_keys(backend):
    backend.set("a", b"1")
    backend.set("c.d e", "3")
    assert backend.mget(["a", "b", "c.d e", "a"]) == [b"1", None, b"3", b"1"]
    backend.delete("a")
    assert backend.mget(["a"]) == [None]


def test_no_two_of_many_threads_count_the_same(backend):
    counted: list[int] = []

    def count() -> None:
        for _ in range(10):
            counted.append(backend.incr("chord"))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(counted) == list(range(1, 41))


def test_waiting_ends_when_the_result_comes_and_not_before(backend):
    result = backend.app.AsyncResult("task")
    with pytest.raises(CeleryTimeoutError):
        result.get(timeout=0.1)
    backend.store_result("task", None, states.STARTED)
    later = threading.Timer(0.2, backend.store_result, ("task", 5, states.SUCCESS))
    later.start()
    assert result.get(timeout=10) == 5
    later.join()


def test_results_of_a_group_come_as_they_are_ready(backend):
    ids = [f"t{number}" for number in range(5)]
    backend.store_result("t3", 3, states.SUCCESS)
    came = backend.get_many(ids, timeout=10)
    assert next(came)[0] == "t3"
    for task_id in ("t4", "t0", "t2", "t1"):
        backend.store_result(task_id, task_id, states.SUCCESS)
        assert next(came)[0] == task_id
    assert list(came) == []
    with pytest.raises(CeleryTimeoutError):
        list(backend.get_many(["t9"], timeout=0.1))


def test_results_expire(server):
    backend = backend_of(server, result_expires=1)
    try:
        backend.store_result("t", 1, states.SUCCESS)
        assert backend.bucket.status().config.ttl == 1
        wait_until(lambda: backend.get(backend.get_key_for_task("t")) is None, timeout=15)
    finally:
        close(backend)


def test_a_result_that_the_server_does_not_take_says_so(backend):
    with pytest.raises(BackendStoreError, match="more than the server takes"):
        backend.set("big", b"x" * 2 * 2**20)


def test_a_backend_goes_to_other_processes(backend):
    copy = pickle.loads(pickle.dumps(backend))
    backend.set("k", b"v")
    assert copy.get("k") == b"v"
    assert copy.expires == backend.expires
    assert "secret" not in KeyValueBackend(backend.app, url="nats://u:secret@h/b").as_uri()


def test_results_are_asked_of_the_leader(backend):
    """Any replica may answer a direct get, also one that has not got the result yet."""
    nc = jetsync.shared_connection(**backend.fields)
    stream = f"KV_{backend.bucket.bucket}"
    asked = nc.subscribe(f"$JS.API.STREAM.MSG.GET.{stream}")
    direct = nc.subscribe(f"$JS.API.DIRECT.GET.{stream}.>")
    nc.flush()
    ids = {"t0"}
    came = backend.get_many(ids, timeout=10)
    later = threading.Timer(0.2, backend.store_result, ("t0", 5, states.SUCCESS))
    later.start()
    assert next(came)[1]["result"] == 5
    later.join()
    assert backend.incr("n") == 1
    came.close()
    assert ids == {"t0"}
    assert asked.next(timeout=5).data
    with pytest.raises(jetsync.TimeoutError):
        direct.next(timeout=0.1)
