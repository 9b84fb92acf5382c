"""What cannot be an option or a number is refused when it is given, as a ConfigError."""

from __future__ import annotations

import os
from typing import Any

import pytest

import jetsync


async def from_elsewhere(event):
    """A handler as libraries with an event loop want it."""


class Looks:
    """Neither a number nor a text, nor anything to call."""


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("servers", (None, 5, b"nats://127.0.0.1:4222", [5])),
        ("connect_timeout", (None, "1", True)),
        ("timeout", (None, "5s")),
        ("reconnect_wait", (None,)),
        ("ping_interval", (None,)),
        ("write_timeout", (None,)),
        ("max_reconnects", (1.5, "1", None, True)),
        ("abort_on_auth_error", (-1, 1.5, True)),
        ("reconnect_buffer_size", (True, 10**30)),
        ("pending_messages_limit", (None, 1.5, 10**30)),
        ("echo", ("no", None, 1)),
        ("reconnect", ("x", 0)),
        ("randomize_servers", (1,)),
        ("tls_handshake_first", (1,)),
        ("on_error", ("print", 5, Looks(), from_elsewhere)),
        ("on_event", (5,)),
        ("reconnect_delay", (1.0,)),
    ],
)
def test_an_option_of_the_wrong_kind_is_named(field, values):
    for value in values:
        with pytest.raises(jetsync.ConfigError, match=field):
            jetsync.ConnectOptions(**{field: value})


def test_options_in_the_place_of_servers_and_others_in_the_place_of_options_are_told_of():
    misplaced: Any = jetsync.ConnectOptions()
    with pytest.raises(jetsync.ConfigError, match=r"options=\.\.\."):
        jetsync.connect(misplaced)
    fields: Any = {"servers": "nats://127.0.0.1:4222"}
    with pytest.raises(jetsync.ConfigError, match="ConnectOptions, not dict"):
        jetsync.connect(options=fields)


@pytest.mark.parametrize("name", [5, b"plain", ["plain"]])
def test_a_context_is_a_name_or_a_path(name):
    for call in (
        lambda: jetsync.ConnectOptions.from_context(name),
        lambda: jetsync.connect(context=name),
        lambda: jetsync.shared_connection(context=name),
    ):
        with pytest.raises(jetsync.ConfigError, match="a context is a name or a path"):
            call()


@pytest.mark.parametrize("number", [-1, 1.5, "2", True, 10**30])
def test_a_number_that_cannot_be_is_refused_before_anything_is_sent(nc, number):
    sub = nc.subscribe("a")
    before = nc.stats.out_messages
    for call in (
        lambda: nc.subscribe("a", pending_messages_limit=number),
        lambda: nc.subscribe("a", pending_bytes_limit=number),
        lambda: nc.request_many("a", max_messages=number),
        lambda: sub.unsubscribe(number),
        lambda: nc.jetstream(max_pending=number),
        lambda: nc.jetstream().publish_many([("a", b"")], max_pending=number),
    ):
        with pytest.raises(jetsync.ConfigError, match="must be"):
            call()
    assert sub.is_active
    assert nc.stats.out_messages == before


def test_an_api_prefix_is_a_text(nc):
    with pytest.raises(jetsync.ConfigError, match="api_prefix must be a str, not int"):
        nc.jetstream(api_prefix=5)


@pytest.mark.parametrize("subject", ["a.", ".a", "a..b"])
def test_the_subject_of_a_subscription_is_what_is_told_of(nc, subject):
    with pytest.raises(jetsync.ConfigError, match=rf"^subject '{subject}' is not valid"):
        nc.subscribe(subject)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_connection_of_the_parent_is_closed_in_a_forked_child(nc):
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            found = [nc.status.name, nc.is_closed, repr(nc)]
            try:
                nc.set_servers("nats://127.0.0.1:4222")
            except jetsync.ForkedError:
                found.append("refused")
            os.write(write, repr(found).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        told = file.read().decode()
    os.waitpid(pid, 0)
    assert told == repr(["CLOSED", True, "Connection(not connected, CLOSED)", "refused"])
