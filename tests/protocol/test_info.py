"""ServerInfo: what is kept of an INFO, and that nothing bad gets through."""

from __future__ import annotations

import base64
import json
import pickle
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetsync.errors import ProtocolError
from jetsync.protocol.info import DEFAULT_MAX_PAYLOAD, ServerInfo

SAMPLES = Path(__file__).parents[1] / "wire" / "wire-samples.json"


def info_frames() -> list[tuple[str, bytes]]:
    samples = json.loads(SAMPLES.read_text())["samples"]
    frames = [(s["name"], base64.b64decode(s["base64"])) for s in samples]
    return [(name, frame) for name, frame in frames if frame.startswith(b"INFO ")]


@pytest.mark.parametrize(("name", "frame"), info_frames())
def test_every_captured_info_is_read_completely(name: str, frame: bytes) -> None:
    info = ServerInfo.parse(frame[len(b"INFO ") :])
    sent = json.loads(frame[len(b"INFO ") :])
    assert info.extra == {}
    for key, value in sent.items():
        assert getattr(info, key) == (tuple(value) if isinstance(value, list) else value)
    assert info.version_tuple == (2, 15, 1)
    assert info.max_payload == 1048576


def test_the_captures_hold_lame_duck_and_connect_urls() -> None:
    infos = {name: ServerInfo.parse(frame[5:]) for name, frame in info_frames()}
    assert infos["info_lame_duck"].ldm
    assert not infos["info_initial"].ldm
    assert infos["info_connect_urls"].connect_urls == tuple(
        f"127.0.0.1:{port}" for port in (15201, 15202, 15203)
    )
    assert infos["info_after_connect"].remote_account == "$G"


def test_an_empty_object_gives_the_defaults() -> None:
    info = ServerInfo.parse(b"{}")
    assert info == ServerInfo()
    assert info.max_payload == DEFAULT_MAX_PAYLOAD
    assert info.nonce == ""
    assert info.connect_urls == ()
    assert info.headers is False


def test_unknown_keys_are_kept_and_null_means_absent() -> None:
    info = ServerInfo.parse(b'{"new_thing":{"a":[1]},"extra":7,"connect_urls":null,"ldm":null}')
    assert info.extra == {"new_thing": {"a": [1]}, "extra": 7}
    assert info.connect_urls == ()
    assert info.ldm is False


DEEP = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"   ",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"7",
        b"{} {}",
        b'{"server_id":"\xff"}',
        "{}".encode("utf-16"),
        b"\xef\xbb\xbf{}",
        DEEP,
        b'{"server_id":1}',
        b'{"server_id":["x"]}',
        b'{"server_name":"\\ud800"}',
        b'{"port":"4222"}',
        b'{"port":4222.0}',
        b'{"port":true}',
        b'{"client_id":18446744073709551616}',
        b'{"max_payload":1e6}',
        b'{"max_payload":0}',
        b'{"max_payload":-1}',
        b'{"max_payload":' + b"9" * 10_000 + b"}",
        b'{"headers":1}',
        b'{"ldm":"true"}',
        b'{"connect_urls":"a:1"}',
        b'{"connect_urls":["a:1",2]}',
        b'{"connect_urls":{}}',
        b'{"x":NaN}',
        b'{"x":-Infinity}',
    ],
    ids=lambda raw: repr(raw[:40]),
)
def test_a_bad_info_is_a_protocol_error(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        ServerInfo.parse(raw)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2.15.1", (2, 15, 1)),
        ("2.10.0-beta.3", (2, 10, 0)),
        ("v2.9.25", (2, 9, 25)),
        ("2.15", (0, 0, 0)),
        ("", (0, 0, 0)),
        ("tip", (0, 0, 0)),
        ("9" * 5000 + ".1.1", (0, 0, 0)),
    ],
)
def test_version_tuple_is_three_numbers_whatever_the_text(
    version: str, expected: tuple[int, int, int]
) -> None:
    assert ServerInfo(version=version).version_tuple == expected


def test_it_is_frozen_hashable_and_picklable() -> None:
    info = ServerInfo.parse(b'{"server_id":"A","connect_urls":["h:1"],"later":[1]}')
    again = pickle.loads(pickle.dumps(info))
    assert again == info
    assert hash(again) == hash(info)
    with pytest.raises(FrozenInstanceError):
        info.port = 1  # type: ignore[misc]


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_protocol_error(raw: bytes) -> None:
    try:
        ServerInfo.parse(raw)
    except ProtocolError:
        pass


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([f.name for f in fields(ServerInfo)]), JSON, max_size=6))
def test_known_keys_with_any_json_value_parse_or_are_refused(document: dict[str, Any]) -> None:
    try:
        info = ServerInfo.parse(json.dumps(document).encode())
    except ProtocolError:
        return
    for key, value in document.items():
        if value is None or key == "extra":
            continue
        assert getattr(info, key) == (tuple(value) if isinstance(value, list) else value)
