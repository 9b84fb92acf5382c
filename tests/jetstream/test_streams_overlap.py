"""A stream whose subjects are taken: the error says which stream has which of them."""

from __future__ import annotations

import pytest

import jetsync
from jetsync.server import NatsServer

USERS = """
authorization {
  users: [
    { user: a, password: a }
    { user: b, password: b, permissions: { publish: { deny: ["$JS.API.STREAM.NAMES"] } } }
  ]
}
"""


def taken(name: str, subject: str) -> str:
    return f"stream {name!r} takes messages of {subject!r} already"


@pytest.mark.parametrize("call", ["create_stream", "create_or_update_stream"])
def test_the_error_names_the_stream_and_the_subject(js, stream, call):
    subjects = ["free.of.all", f"{stream.name}.b"]
    with pytest.raises(jetsync.InvalidStreamConfigError) as caught:
        getattr(js, call)(name="LATE", subjects=subjects)
    error = caught.value
    assert (error.err_code, error.stream) == (10065, "LATE")
    assert str(error).startswith("stream 'LATE': subjects overlap with an existing stream")
    assert str(error).endswith(taken(stream.name, subjects[1]))


def test_an_update_names_the_other_stream_and_not_its_own(js, stream):
    other = js.create_stream(name="OWN", subjects=["own"], storage="memory")
    try:
        with pytest.raises(jetsync.InvalidStreamConfigError) as caught:
            js.update_stream(name="OWN", subjects=["own", f"{stream.name}.x"])
    finally:
        other.delete()
    assert str(caught.value).endswith(taken(stream.name, f"{stream.name}.x"))


def test_without_permission_to_list_names_the_error_is_the_server_s_own():
    with NatsServer(config=USERS) as server:
        with jetsync.connect(server.url, user="a", password="a") as nc:
            nc.jetstream().create_stream(name="FIRST", subjects=["x.>"])
        with (
            jetsync.connect(server.url, user="b", password="b") as nc,
            pytest.raises(jetsync.InvalidStreamConfigError) as caught,
        ):
            nc.jetstream().create_stream(name="LATE", subjects=["x.y"], timeout=5)
    assert str(caught.value) == (
        "stream 'LATE': subjects overlap with an existing stream (err_code 10065)"
    )
