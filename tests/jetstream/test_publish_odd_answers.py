"""An odd answer is a typed error of the publish that it is about, and concerns no other."""

from __future__ import annotations

import gc
import json
import random
import threading
from functools import partial

import pytest

import jetsync
from tests.harness.soak import scaled
from tests.jetstream.test_publish_outcomes import STORED, in_bulk, playing, sync, with_future

ODD = [
    b'{"stream":"S","seq":0}',
    b'{"stream":"S","seq":-1}',
    b'{"stream":"S","seq":18446744073709551616}',
    b'{"stream":"S","seq":1e400}',
    b'{"stream":"S","seq":true}',
    b'{"stream":"S","seq":"7"}',
    b'{"stream":7,"seq":7}',
    b'{"stream":"S","seq":7,"count":{}}',
    b'{"stream":null,"seq":null,"error":[]}',
    b"[]",
    b"7",
    b"null",
    b"{",
    b"\xff\xfe",
    b"[" * 5000,
]


@pytest.mark.parametrize("publish", [sync, with_future, in_bulk])
@pytest.mark.parametrize("answer", ODD, ids=lambda answer: answer[:40].decode("latin-1"))
def test_nonsense_leaves_the_outcome_unknown(publish, answer):
    with playing(answer) as (js, _), pytest.raises(jetsync.PublishUnknownError):
        publish(js, timeout=5)


@pytest.mark.parametrize("publish", [sync, with_future])
def test_nonsense_beside_a_good_confirmation_is_left_out(publish):
    for more in (b',"count":"many"', b',"domain":"\xff"'):
        with playing(b'{"stream":"S","seq":7%s}' % more) as (js, _):
            ack = publish(js, timeout=5)
            assert (ack.stream, ack.seq, ack.count, ack.domain) == ("S", 7, None, None)


@pytest.mark.parametrize("answer", [ODD[1], ODD[2], ODD[-1]], ids=["negative", "huge", "deep"])
def test_one_odd_answer_leaves_the_others_alone(answer):
    with playing(answer, STORED) as (js, _):
        futures = [js.publish_async("s", b"x", timeout=20) for _ in range(200)]
        errors = [future.exception() for future in futures]
        assert sum(isinstance(error, jetsync.PublishUnknownError) for error in errors) == 1
        assert errors.count(None) == 199
    with playing(answer, STORED) as (js, _):
        report = js.publish_many([("s", b"x")] * 200, timeout=20)
        assert (report.stored, len(report.failed)) == (199, 1)


@pytest.mark.parametrize("publish", [sync, with_future, in_bulk])
def test_a_confirmation_of_another_stream_than_expected_does_not_count(publish):
    with playing(b'{"stream":"OTHER","seq":7}') as (js, _):
        if publish is sync:
            call = partial(js.publish, "s", expected_stream="S", timeout=5)
        elif publish is with_future:
            call = js.publish_async("s", expected_stream="S", timeout=5).result
        else:
            rows = [("s", b"")]
            call = js.publish_many(rows, expected_stream="S", timeout=5).raise_for_failed
        with pytest.raises(jetsync.PublishUnknownError):
            call()


def mutated(text, rng):
    """A confirmation or refusal with some bytes changed, cut, doubled, or a value replaced."""
    kind = rng.randrange(4)
    if kind == 0:
        answer = json.loads(text)
        values = [None, -1, 0, 2**64, 1.5, True, "", "x", [], {}, [1], {"a": 1}, "9" * 5000]
        answer[rng.choice(list(answer))] = rng.choice(values)
        return json.dumps(answer).encode()
    at = rng.randrange(len(text))
    if kind == 1:
        return text[:at]
    if kind == 2:
        return text[:at] + bytes([rng.randrange(256)]) + text[at + 1 :]
    return text[:at] + text[rng.randrange(len(text)) :]


def test_mutated_answers_are_stored_refused_or_unknown_and_nothing_else():
    rng = random.Random(7)
    whole = [
        b'{"stream":"S","domain":"d","seq":7,"duplicate":true,"val":"5","batch":"b","count":2}',
        b'{"error":{"code":400,"err_code":10071,"description":"wrong"},"stream":"S","seq":0}',
    ]
    count = scaled(300, 20_000)
    answers = [mutated(rng.choice(whole), rng).replace(b"\r\n", b"") for _ in range(count)]
    with playing(*answers, STORED) as (js, _):
        futures = [js.publish_async("s", b"x", timeout=60, msg_id=None) for _ in range(count)]
        for future in futures:
            error = future.exception(60)
            assert error is None or isinstance(error, jetsync.PublishError)
            if error is None:
                assert 0 < future.result().seq < 2**64
        assert js.publish_async("s", b"x").result(10).seq == 7


class Publishes:
    """A cycle whose finalizer publishes."""

    def __init__(self, js):
        self.me = self
        self.js = js

    def __del__(self):
        self.js.publish_async("s", b"from a finalizer")


def test_a_finalizer_may_publish_in_the_middle_of_a_publish():
    with playing(STORED) as (js, _):
        js.publish_async("s").result(10)
        payload = bytes((1 << 20) + 1)
        refused = []

        def work():
            for _ in range(20):
                Publishes(js)
                try:
                    js.publish_async("s", payload)
                except jetsync.MaxPayloadError as error:
                    refused.append(error)

        before = gc.get_threshold()
        thread = threading.Thread(target=work, daemon=True)
        gc.set_threshold(1)
        try:
            thread.start()
            thread.join(30)
        finally:
            gc.set_threshold(*before)
        assert not thread.is_alive()
        assert len(refused) == 20
        js.publish_async_wait(30)
