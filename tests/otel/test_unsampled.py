"""The traceparent of a message whose trace begins here and is left out: random ids by the W3C that
no other message has, of another thread or a forked process neither."""

from __future__ import annotations

import os
import random
import re
import threading

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

import jetsync
import jetsync.otel
from jetsync.client import unsampled_parent

_FORM = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-00")


def taken(count):
    """So many values of traceparent."""
    return [unsampled_parent() for _ in range(count)]


def test_every_id_is_new_and_of_the_form_of_the_w3c():
    found = [_FORM.fullmatch(text) for text in taken(1000)]
    assert all(found)
    for group in (1, 2):
        ids = {match[group] for match in found if match}
        assert len(ids) == 1000
        ones = sum(int(one, 16).bit_count() for one in ids) / (1000 * 4 * len(next(iter(ids))))
        assert 0.45 < ones < 0.55  # bits of chance: 0.5 within 20 standard deviations


def test_a_seed_of_the_program_does_not_make_the_same_ids_twice():
    random.seed(7)
    first = taken(200)
    random.seed(7)
    assert not set(first) & set(taken(200))


def test_threads_never_get_the_same_one():
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.extend(taken(2000))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == len(found) == 16_000


def test_a_forked_process_gets_others_than_its_parent():
    taken(1)  # more are ready
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, "\n".join(taken(70)).encode())
        os._exit(0)
    os.close(write)
    mine = taken(70)
    with open(read) as pipe:
        theirs = pipe.read().split("\n")
    os.waitpid(child, 0)
    assert len(theirs) == 70
    assert not set(mine) & set(theirs)


def test_messages_of_one_connection_have_one_each_and_keep_that_of_the_caller(url):
    sampler = ParentBased(ALWAYS_OFF)
    jetsync.otel.instrument(tracer_provider=TracerProvider(sampler=sampler))
    try:
        nc = jetsync.connect(url)
    finally:
        jetsync.otel.uninstrument()
    own = f"00-{7:032x}-{8:016x}-01"
    with nc, nc.subscribe("unsampled") as subscription:
        for _ in range(3):
            nc.publish("unsampled", b"")
        nc.publish("unsampled", b"", headers={"traceparent": own})
        found = [subscription.next(timeout=9).headers["traceparent"] for _ in range(4)]
    assert found[3] == own
    assert all(_FORM.fullmatch(text) for text in found[:3])
    assert len(set(found)) == 4
