"""What a stream of pulled messages does when its server falls silent, without a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import jetsync
from jetsync.jetstream.pull.stream import PullStream


@pytest.mark.parametrize("later", [None, jetsync.TimeoutError("silent", operation="next")])
def test_silence_keeps_the_error_that_a_stream_has(later):
    error = jetsync.PullTerminatedError("gone", status=409)
    stream: Any = SimpleNamespace(
        _error=error,
        _on_silence=lambda inbox: None,
        _port=SimpleNamespace(check=lambda: None),
        _source=SimpleNamespace(on_silence=lambda inbox: later),
    )
    inbox: Any = SimpleNamespace(
        lost_link=lambda: False, went_silent=lambda: True, mailbox=SimpleNamespace(ended=False)
    )
    PullStream._check(stream, inbox)
    assert stream._error is error
