"""Requests of the API whose subject carries what users chose."""

from __future__ import annotations

import pytest

import jetsync


def test_a_filter_with_wildcards_is_part_of_the_subject_that_creates_the_consumer(js, nc, stream):
    """Administrators grant permissions on that subject, filter included."""
    name = stream.name
    seen = nc.subscribe(f"$JS.API.CONSUMER.CREATE.{name}.>")
    nc.flush()
    consumer = js.create_consumer(name, filter_subject=f"{name}.*.a.>")
    assert consumer.cached_info.config.filter_subject == f"{name}.*.a.>"
    assert seen.next(timeout=5).subject.endswith(f".{name}.*.a.>")


def test_a_filter_cannot_break_the_request(js, stream):
    with pytest.raises(jetsync.ConfigError):
        js.create_consumer(stream.name, filter_subject="a b\r\nPUB x 0\r\n")
