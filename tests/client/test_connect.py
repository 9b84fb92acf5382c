"""Connecting: servers in every form, refusals as typed errors, one budget for each attempt."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import socket
import threading

import pytest

import jetsync
from jetsync.client.options import ConnectFields
from jetsync.server import NatsServer
from tests.harness.waiting import wait_until


def test_connects_and_tells_about_the_server(url):
    with jetsync.connect(url, name="t") as nc:
        assert nc.is_connected
        assert nc.status == "CONNECTED"
        assert nc.server_info is not None
        assert nc.server_info.version
        assert nc.max_payload == nc.server_info.max_payload
        assert nc.client_id == nc.server_info.client_id
        assert nc.rtt(timeout=2) > 0
    assert nc.is_closed


@pytest.mark.straight
def test_takes_several_servers_and_finds_the_living_one(url):
    dead = "nats://127.0.0.1:1"
    for servers in (f"{dead},{url}", [dead, url]):
        with jetsync.connect(servers, randomize_servers=False) as nc:
            assert nc.is_connected


def test_an_inbox_is_a_new_subject_under_the_prefix(url):
    for prefix in ("_INBOX", "my.app"):
        with jetsync.connect(url, inbox_prefix=prefix) as nc, nc.subscribe(f"{prefix}.*") as heard:
            inboxes = [nc.new_inbox(), nc.new_inbox()]
            for inbox in inboxes:
                nc.publish(inbox)
            assert [heard.next(9).subject for _ in inboxes] == inboxes
            assert inboxes[0] != inboxes[1]


def test_no_server_is_one_typed_error_that_names_the_address():
    with pytest.raises(jetsync.NoServersError, match=r"127\.0\.0\.1:1"):
        jetsync.connect("nats://127.0.0.1:1")


@pytest.mark.timed
def test_a_server_that_says_nothing_costs_the_connect_timeout_and_no_more(in_time):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with in_time(0.3), pytest.raises(jetsync.NoServersError):
            jetsync.connect(f"nats://127.0.0.1:{port}", connect_timeout=0.3)


def test_something_that_is_no_nats_server_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            peer, _ = listener.accept()
            with peer:
                peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(jetsync.ConnectError, match="does not speak NATS"):
            jetsync.connect(f"nats://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()


@pytest.mark.straight
def test_credentials_are_checked_and_never_shown():
    config = "authorization { user: joe, password: s3cret }"
    with NatsServer(config=config, jetstream=False) as server:
        with jetsync.connect(server.url, user="joe", password="s3cret") as nc:
            assert nc.is_connected
            assert "s3cret" not in repr(nc.options)
        in_url = server.url.replace("nats://", "nats://joe:s3cret@")
        with jetsync.connect(in_url) as nc:
            assert "s3cret" not in repr(nc.options) + repr(nc) + str(nc.connected_url)
        with pytest.raises(jetsync.AuthorizationError) as caught:
            jetsync.connect(server.url, user="joe", password="wr0ng")
        assert "wr0ng" not in str(caught.value)
        assert isinstance(pickle.loads(pickle.dumps(caught.value)), jetsync.AuthorizationError)


def test_a_password_function_is_asked_again_at_every_attempt():
    asked = []

    def password():
        asked.append(1)
        return "s3cret"

    config = "authorization { user: joe, password: s3cret }"
    with (
        NatsServer(config=config, jetstream=False) as server,
        jetsync.connect(server.url, user="joe", password=password) as nc,
    ):
        nc.force_reconnect()
        wait_until(lambda: nc.stats.reconnects == 1, timeout=10)
        assert len(asked) == 2


def test_a_token_signs_in():
    with (
        NatsServer(config="authorization { token: t0k }", jetstream=False) as server,
        jetsync.connect(server.url, token="t0k") as nc,
    ):
        assert nc.is_connected


def test_retry_on_initial_connect_goes_on_until_a_server_appears():
    with NatsServer(jetstream=False) as server:
        server.stop()
        nc = jetsync.connect(server.url, retry_on_initial_connect=True)
        try:
            assert not nc.is_connected
            server.start()
            wait_until(lambda: nc.is_connected, timeout=10)
        finally:
            nc.close()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"servers": "http://x"}, "nats://"),
        ({"servers": "nats://h:99999"}, "port"),
        ({"connect_timeout": 0}, "connect_timeout"),
        ({"timeout": -1}, "timeout"),
        ({"reconnect_buffer_size": -1}, "reconnect_buffer_size"),
        ({"max_pings_outstanding": 0}, "max_pings_outstanding"),
        ({"user": "a", "token": "b"}, "token"),
        ({"inbox_prefix": "a b"}, "inbox"),
    ],
)
def test_a_wrong_option_is_named_before_anything_is_sent(options, word):
    with pytest.raises(jetsync.ConfigError, match=word):
        jetsync.connect(**options)


def test_connect_and_options_have_the_same_parameters():
    parameters = dict(inspect.signature(jetsync.connect).parameters)
    for name in ("options", "context"):
        del parameters[name]
    fields = {f.name: f.default for f in dataclasses.fields(jetsync.ConnectOptions)}
    assert {name: p.default for name, p in parameters.items()} == fields


def test_the_typed_keywords_of_shared_connection_are_the_fields_of_the_options():
    keywords = {name: hint.__forward_arg__ for name, hint in ConnectFields.__annotations__.items()}
    assert keywords == {f.name: f.type for f in dataclasses.fields(jetsync.ConnectOptions)}


def test_options_pickle_and_connect_elsewhere(url):
    options = pickle.loads(pickle.dumps(jetsync.ConnectOptions(servers=[url], name="copy")))
    with jetsync.connect(options=options) as nc:
        assert nc.options == options


def test_options_and_single_keywords_do_not_mix(url):
    with pytest.raises(jetsync.ConfigError, match="either"):
        jetsync.connect(url, options=jetsync.ConnectOptions())


def test_a_connection_does_not_pickle_and_says_what_to_do(nc):
    with pytest.raises(jetsync.ConfigError, match="options"):
        pickle.dumps(nc)
