"""A hundred tests on a real server: pytest -n 8. Each has an account of its own."""

from __future__ import annotations

import os
import unittest
from collections.abc import Callable

import orders
import pytest

import jetsync
from jetsync import Connection, JetStream
from jetsync.testing import (
    Faults,
    assert_acked,
    assert_published,
    collect,
    make_message,
    wait_until,
)
from jetsync.worker import Reject, Worker

ROUNDS = range(int(os.environ.get("ROUNDS", "14")))


@pytest.mark.parametrize("number", ROUNDS)
def test_an_order_is_stored_once(nats_js: JetStream, number: int) -> None:
    orders.create(nats_js)
    assert not orders.place(nats_js, number, 1.5).duplicate
    assert orders.place(nats_js, number, 1.5).duplicate
    (stored,) = assert_published(nats_js, "orders.>")
    assert stored.subject == f"orders.{number}"


@pytest.mark.parametrize("number", ROUNDS)
def test_no_other_test_is_here(nats_js: JetStream, number: int) -> None:
    """Tests that run at the same time do not see each other's streams."""
    assert list(nats_js.stream_names()) == []
    nats_js.create_stream(name="ORDERS", subjects=["orders.>"])


@pytest.mark.parametrize("number", ROUNDS)
def test_orders_are_charged(
    nats_js: JetStream, nats_worker: Callable[..., Worker], number: int
) -> None:
    consumer = orders.create(nats_js)
    sums: list[float] = []
    nats_worker(consumer, lambda msg: sums.append(orders.charge(msg)))
    orders.place(nats_js, 1, number)
    orders.place(nats_js, 2, number + 1)
    wait_until(lambda: len(sums) == 2)
    assert_acked(consumer)
    assert sorted(sums) == [number, number + 1]


@pytest.mark.parametrize("number", ROUNDS)
def test_a_broken_link_loses_no_order(nats_js: JetStream, nats_faults: Faults, number: int) -> None:
    orders.create(nats_js)
    with jetsync.connect(nats_faults.url, reconnect_wait=0.01) as nc:
        js = nc.jetstream()
        orders.place(js, 1, 1.0)
        nats_faults.cut()
        orders.place(js, 2, 1.0)
    assert_published(nats_js, "orders.>", count=2)


@pytest.mark.parametrize("number", ROUNDS)
def test_an_order_is_announced(nats_connection: Connection, number: int) -> None:
    with collect(nats_connection, "announced.>") as announced:
        nats_connection.publish(f"announced.{number}", b"order")
        announced.wait_for(1)
    assert announced.subjects == [f"announced.{number}"]


@pytest.mark.parametrize("number", ROUNDS)
def test_the_handler_rejects_what_is_no_order(number: int) -> None:
    """Without any server."""
    assert orders.charge(make_message(b'{"sum": 3}')) == 3
    with pytest.raises(Reject):
        orders.charge(make_message(b"no order", num_delivered=number + 1))


@pytest.mark.parametrize("number", ROUNDS)
@pytest.mark.nats(min_version="2.10")
def test_a_server_is_new_enough(nats_connection: Connection, number: int) -> None:
    assert nats_connection.server_info is not None


class TestInTheOldStyle(unittest.TestCase):
    """unittest classes take the fixtures by a fixture of their own."""

    js: JetStream

    @pytest.fixture(autouse=True)
    def _take(self, nats_js: JetStream) -> None:
        self.js = nats_js

    def test_an_order_is_stored(self) -> None:
        orders.create(self.js)
        assert orders.place(self.js, 1, 1.0).stream == "ORDERS"

    def test_nothing_is_stored_at_first(self) -> None:
        assert list(self.js.stream_names()) == []
