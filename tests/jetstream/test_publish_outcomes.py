"""Three outcomes and never a wrong one: stored, certainly not stored, unknown (P3)."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pickle
import threading
import time
from functools import partial

import pytest

import jetsync
from jetsync.jetstream.publish import one, window_keeper
from jetsync.jetstream.publish.duplicate_window import repeatable_for
from jetsync.jetstream.publish.outcome import PERSISTENCE
from jetsync.server import NatsServer
from tests.harness.fakeserver import ClientGone, FakeServer
from tests.harness.insides import api_of, connection_of
from tests.harness.proxy import Proxy
from tests.harness.waiting import wait_until

STORED = b'{"stream":"S","seq":7}'
COPY = b'{"stream":"S","seq":7,"duplicate": true}'
WRONG = (
    b'{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 9"},'
    b'"stream":"S","seq":0}'
)
BUSY = (
    b'{"error":{"code":503,"err_code":10008,"description":"temporarily unavailable"},'
    b'"stream":"S","seq":0}'
)
IN_PROCESS = (
    b'{"error":{"code":409,"err_code":10158,"description":"duplicate message id is in process"},'
    b'"stream":"S","seq":0}'
)
NO_STREAM = b"NATS/1.0 503\r\n\r\n"
CUT = b"cut"
NOTHING = b"nothing"


class FakeStream:
    """A stream that answers publishes as the test wants; the last answer goes on for ever."""

    def __init__(self, *answers: bytes, window: float = 120.0) -> None:
        self._answers = list(answers)
        self._window = window
        self.published: list[bytes] = []  # the header block of each publish

    def serve(self, peer) -> None:
        peer.handshake(api_lvl=5)
        routes: dict[bytes, bytes] = {}
        with contextlib.suppress(ClientGone, OSError):
            while True:
                line = peer.read_line()
                words = line.split(b" ")
                if words[0] == b"PING":
                    peer.send(b"PONG\r\n")
                elif words[0] == b"SUB":
                    routes[words[1].rstrip(b"*")] = words[-1]
                elif words[0] in (b"PUB", b"HPUB"):
                    header = int(words[3]) if words[0] == b"HPUB" else 0
                    data = peer.read_exactly(int(words[-1]) + 2)
                    reply = words[2]
                    sid = next(sid for prefix, sid in routes.items() if reply.startswith(prefix))
                    answer = self._answer(words[1], data[:header])
                    if answer == CUT:
                        peer.reset()
                        return
                    if answer == NO_STREAM:
                        size = b"%d %d" % (len(NO_STREAM), len(NO_STREAM))
                        line = b"HMSG " + reply + b" " + sid + b" " + size + b"\r\n"
                        peer.send(line + NO_STREAM + b"\r\n")
                    elif answer != NOTHING:
                        peer.send_message(reply, sid, answer)

    def _answer(self, subject: bytes, header: bytes) -> bytes:
        if subject == b"$JS.API.STREAM.NAMES":
            return b'{"streams":["S"],"total":1}'
        if subject == b"$JS.API.STREAM.INFO.S":
            config = {"name": "S", "subjects": ["s"], "duplicate_window": int(self._window * 1e9)}
            return json.dumps({"config": config}).encode()
        self.published.append(header)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def sync(js, **options):
    return js.publish("s", b"x", **options)


def with_future(js, **options):
    return js.publish_async("s", b"x", **options).result()


def in_bulk(js, timeout=None, msg_id=jetsync.AUTO):
    rows = [("s", b"x")] if msg_id in (None, jetsync.AUTO) else [("s", b"x", {"Nats-Msg-Id": "m"})]
    report = js.publish_many(rows, timeout=timeout, msg_id=jetsync.AUTO if msg_id else None)
    for _, error in report.failed:
        raise error
    return report


@contextlib.contextmanager
def playing(*answers, connections=10, **options):
    stream = FakeStream(*answers, **options)
    with (
        FakeServer(*[stream.serve] * connections) as fake,
        jetsync.connect(fake.url, reconnect_wait=0.01, reconnect_jitter=0.01) as nc,
    ):
        yield nc.jetstream(timeout=20), stream
        nc.close()


@pytest.fixture(params=[sync, with_future, in_bulk])
def publish(request):
    return request.param


# -- what is repeated, and what is said in the end ------------------------------------------------


@pytest.mark.parametrize("trouble", [NO_STREAM, BUSY, CUT, IN_PROCESS])
def test_passing_trouble_is_waited_out_with_the_same_id(publish, trouble):
    with playing(trouble, trouble, COPY) as (js, stream):
        publish(js)
    assert len(stream.published) == 3
    assert len(set(stream.published)) == 1
    assert b"Nats-Msg-Id: " in stream.published[0]


def test_a_refusal_is_certain(publish):
    with playing(WRONG) as (js, stream), pytest.raises(jetsync.NotStoredError) as caught:
        publish(js)
    assert len(stream.published) == 1
    assert not isinstance(caught.value, jetsync.PublishUnknownError)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), jetsync.NotStoredError)


def test_a_refusal_of_a_copy_says_nothing_about_the_first_one(publish):
    """On a replicated stream the copy can be refused while the first one is stored."""
    with playing(CUT, WRONG) as (js, _), pytest.raises(jetsync.PublishUnknownError) as caught:
        publish(js)
    assert not isinstance(caught.value, jetsync.NotStoredError)
    assert isinstance(caught.value, TimeoutError)
    assert caught.value.msg_id
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), again.msg_id) == (jetsync.PublishUnknownError, caught.value.msg_id)


@pytest.fixture
def rarely():
    """A refused message is sent again after two seconds."""
    usual = PERSISTENCE.refused_wait
    object.__setattr__(PERSISTENCE, "refused_wait", 2.0)
    yield
    object.__setattr__(PERSISTENCE, "refused_wait", usual)


def test_no_stream_takes_it_until_the_end(publish, rarely):
    with playing(NO_STREAM) as (js, stream), pytest.raises(jetsync.NotStoredError):
        # Half way between two attempts: the last one has been answered by then.
        publish(js, timeout=3.0)
    assert len(stream.published) >= 2


def test_no_stream_takes_the_copy_until_the_end(publish):
    with playing(CUT, NO_STREAM) as (js, _), pytest.raises(jetsync.PublishUnknownError):
        publish(js, timeout=1.0)


def test_a_message_being_stored_elsewhere_is_not_certain(publish):
    with playing(IN_PROCESS) as (js, _), pytest.raises(jetsync.PublishUnknownError):
        publish(js, timeout=0.7)


def test_nothing_comes(publish):
    with playing(NOTHING) as (js, _), pytest.raises(jetsync.PublishUnknownError) as caught:
        publish(js, timeout=0.4)
    assert caught.value.msg_id is not None


def test_another_subscriber_answers(publish):
    """A subscriber that is no stream listens on the subject, and answers anything."""
    with playing(b"hello") as (js, _), pytest.raises(jetsync.PublishUnknownError):
        publish(js, timeout=2)


@pytest.mark.parametrize("first", [CUT, NOTHING])
def test_without_an_id_an_unknown_outcome_is_not_repeated(publish, first):
    with (
        playing(first, STORED) as (js, stream),
        pytest.raises(jetsync.PublishUnknownError) as caught,
    ):
        publish(js, msg_id=None, timeout=3)
    assert len(stream.published) == 1
    assert caught.value.msg_id is None


def test_no_copy_is_sent_too_late_to_be_answered(publish, monkeypatch):
    """Without an answer it would make unknown what was refused for certain."""
    # So that the machine has time for the first answer.
    slow = dataclasses.replace(PERSISTENCE, last_attempt=10.0)
    for module in (one, window_keeper):
        monkeypatch.setattr(module, "PERSISTENCE", slow)
    with (
        playing(BUSY, NOTHING) as (js, stream),
        pytest.raises(jetsync.NotStoredError, match="temporarily unavailable"),
    ):
        publish(js, timeout=2.0)
    assert len(stream.published) == 1


def test_without_an_id_a_certain_refusal_is_repeated(publish):
    with playing(NO_STREAM, BUSY, STORED) as (js, stream):
        publish(js, msg_id=None, timeout=5)
    assert stream.published == [b""] * 3


def test_an_id_of_the_users_own_is_repeated(publish):
    with playing(CUT, COPY) as (js, stream):
        publish(js, msg_id="m")
    assert stream.published == [b"NATS/1.0\r\nNats-Msg-Id: m\r\n\r\n"] * 2


def test_nothing_is_repeated_after_the_duplicate_window(publish):
    """The stream would take the copy for a new message."""
    with (
        playing(CUT, STORED, window=0.001) as (js, stream),
        pytest.raises(jetsync.PublishUnknownError),
    ):
        publish(js, timeout=1.5)
    assert len(stream.published) == 1


def test_nothing_is_sent_without_a_connection():
    """A message in the reconnect buffer could be stored after its outcome was told."""
    with NatsServer() as server, jetsync.connect(server.url, reconnect_wait=0.01) as nc:
        js = nc.jetstream()
        js.create_stream(name="S", subjects=["s"])
        js.publish_async("s").result()
        server.kill()
        wait_until(lambda: not nc.is_connected)
        for publish in (sync, with_future):
            with pytest.raises(jetsync.NotStoredError):
                publish(js, timeout=0.2)
        batch = js.batch(timeout=0.2)
        batch.add("s")
        with pytest.raises(jetsync.NotStoredError):
            batch.commit()
        with pytest.raises(jetsync.ConfigError):
            js.publish("not a subject", timeout=0.2)
        with pytest.raises(jetsync.ConfigError):
            js.publish("s", b"", headers={"K": "a\r\nb"}, timeout=0.2)
        assert js.publish_many([("s", b"")], timeout=0.2).complete is False
        server.start()
        wait_until(lambda: nc.is_connected, timeout=20)
        assert js.publish("s", b"after").seq == 2


def test_closing_ends_a_publish_that_waits():
    with playing(NOTHING) as (js, _):
        errors: list[Exception] = []

        def work():
            try:
                js.publish("s", timeout=30)
            except jetsync.Error as error:
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        wait_until(lambda: _.published, timeout=10)
        connection_of(js).close()
        thread.join(10)
        assert [type(error) for error in errors] == [jetsync.PublishUnknownError]


def test_a_forbidden_subject_is_told(publish):
    rights = {"publish": {"deny": ["s"]}}
    users = [{"user": "u", "password": "p", "permissions": rights}]
    with (
        NatsServer(config={"authorization": {"users": users}}) as server,
        jetsync.connect(server.url, user="u", password="p") as nc,
        pytest.raises(jetsync.PublishError) as caught,
    ):
        publish(nc.jetstream(), timeout=20)
    assert isinstance(caught.value.__cause__, jetsync.PermissionsError)


def test_silence_is_broken_soon_however_long_the_timeout_is():
    """A leader that steps down can swallow a message: it is sent again after about two seconds."""
    with playing(NOTHING, NOTHING, COPY) as (js, stream):
        begun = time.monotonic()
        assert js.publish("s", b"x", timeout=600).duplicate
        assert time.monotonic() - begun < 60
    assert len(stream.published) == 3
    assert len(set(stream.published)) == 1


def test_a_confirmation_that_comes_late_counts(fresh_server):
    """The answer to the first copy is waited for while the next one is thought about."""
    with (
        Proxy(fresh_server.url) as proxy,
        jetsync.connect(proxy.url) as nc,
    ):
        js = nc.jetstream()
        js.create_stream(name="S", subjects=["s"])
        proxy.delay(1.5)  # longer both ways than the first silence
        ack = js.publish("s", b"x", timeout=20)
        proxy.heal()
        assert ack == jetsync.PubAck("S", 1)
        assert js.stream("S").info().state.messages == 1


# -- the same id is one message --------------------------------------------------------------------


def holds(stream, count):
    return stream.info().state.messages == count


def has_reconnected(nc, count):
    return nc.stats.reconnects >= count and nc.is_connected


def test_lost_confirmations_never_double():
    """Fifty confirmations are thrown away and the link is broken; each message is there once."""
    with (
        NatsServer() as server,
        Proxy(server.url) as proxy,
        jetsync.connect(server.url) as direct,
    ):
        stream = direct.jetstream().create_stream(name="S", subjects=["s"])
        repeated = 0
        for start in range(0, 50, 10):
            # A connection whose links all live shortly waits longer and longer: take new ones.
            with jetsync.connect(proxy.url, reconnect_wait=0.01, reconnect_jitter=0.01) as nc:
                js = nc.jetstream(timeout=30)
                for n in range(start, start + 10):
                    proxy.swallow_after(0)
                    future = js.publish_async("s", b"%d" % n, msg_id=str(n))
                    wait_until(partial(holds, stream, n + 1), timeout=10)
                    proxy.swallow_after(None)
                    proxy.cut()
                    ack = future.result()
                    assert ack.seq == n + 1
                    repeated += ack.duplicate
                    wait_until(partial(has_reconnected, nc, n - start + 1), timeout=30)
        assert stream.info().state.messages == 50
        # A confirmation can slip through between the end of one fault and the next one.
        assert repeated >= 25


def test_the_same_id_is_one_message_whatever_happens_in_between():
    """On another connection, after a restart of the server, by another call."""
    with NatsServer() as server:
        with jetsync.connect(server.url) as nc:
            js = nc.jetstream()
            js.create_stream(name="S", subjects=["s"])
            assert js.publish("s", b"one", msg_id="id").duplicate is False
        server.kill()
        server.start()
        with jetsync.connect(server.url) as nc:
            js = nc.jetstream()
            again = js.publish("s", b"two", msg_id="id")
            assert (again.seq, again.duplicate) == (1, True)
            assert js.publish_async("s", b"three", msg_id="id").result().duplicate
            assert js.publish_many([("s", b"four", {"Nats-Msg-Id": "id"})]).duplicates == 1
            assert js.stream("S").get_msg(1).data == b"one"
            assert js.stream("S").info().state.messages == 1


def test_the_bound_of_retries_is_the_streams_own(js, stream):
    """Asked from the stream; the server's default where there is no stream."""
    js.create_stream(name="SHORT", subjects=["short"], duplicate_window=10, storage="memory")
    api = api_of(js)
    assert repeatable_for(api, ["short"], 5) == pytest.approx(8)
    assert repeatable_for(api, [f"{stream.name}.a", f"{stream.name}.b"], 5) == pytest.approx(96)
    assert repeatable_for(api, [f"{stream.name}.a", "short"], 5) == pytest.approx(8)
    assert repeatable_for(api, ["nothing.stores.this"], 5) == pytest.approx(96)
    js.delete_stream("SHORT")
