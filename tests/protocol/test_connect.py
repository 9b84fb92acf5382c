"""connect_payload: only what is allowed reaches the line, and the line always frames."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetsync._version import __version__
from jetsync.errors import ConfigError
from jetsync.protocol.connect import connect_payload


def fields_of(line: bytes) -> dict[str, Any]:
    assert line.startswith(b"CONNECT {")
    assert line.endswith(b"}\r\n")
    document = json.loads(line[len(b"CONNECT ") :])
    assert isinstance(document, dict)
    return document


def test_the_plain_line_holds_exactly_the_fixed_fields() -> None:
    assert fields_of(connect_payload()) == {
        "verbose": False,
        "pedantic": False,
        "echo": True,
        "tls_required": False,
        "headers": True,
        "no_responders": True,
        "protocol": 1,
        "lang": "python",
        "version": __version__,
    }


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"name": "billing"}, {"name": "billing"}),
        ({"name": ""}, {"name": ""}),
        ({"echo": False}, {"echo": False}),
        ({"tls_required": True}, {"tls_required": True}),
        ({"auth": {"user": "u", "pass": "p"}}, {"user": "u", "pass": "p"}),
        ({"auth": {"auth_token": "t"}}, {"auth_token": "t"}),
        ({"auth": {"nkey": "U", "sig": "s"}}, {"nkey": "U", "sig": "s"}),
        ({"auth": {"jwt": "j", "sig": "s"}}, {"jwt": "j", "sig": "s"}),
    ],
)
def test_options_and_credentials_reach_the_line(
    given_: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert fields_of(connect_payload(**given_)).items() >= expected.items()


@pytest.mark.parametrize("key", ["password", "seed", "tls_key", "verbose", "account", ""])
def test_a_field_that_is_no_credential_is_refused(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        connect_payload(auth={key: "hunter2"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [{"name": 7}, {"name": "\ud800"}, {"auth": {"pass": b"hunter2"}}, {"auth": {"pass": "\udfff"}}],
)
def test_a_value_that_is_no_text_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        connect_payload(**wrong)
    assert "hunter2" not in str(caught.value)


def test_the_length_of_the_line_is_left_to_the_server() -> None:
    """Which knows its own ``max_control_line``; the client does not."""
    assert fields_of(connect_payload(name="n" * 50_000))["name"] == "n" * 50_000


@settings(deadline=None)
@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_no_value_can_end_the_line_early_or_change(name: str, user: str, password: str) -> None:
    line = connect_payload(name=name, auth={"user": user, "pass": password})
    assert line.count(b"\r") == line.count(b"\n") == 1
    sent = fields_of(line)
    assert (sent["name"], sent["user"], sent["pass"]) == (name, user, password)
