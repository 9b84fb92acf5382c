"""A plugin: every server of the run sends ``$JS.ACK`` and ``$JS.FC`` subjects in their second form.

``pytest -p tests.harness.ack_v2 tests/jetstream`` is the consuming suite against servers whose
operator set ``feature_flags { js_ack_fc_v2: true }`` (nats-server 2.14).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import pytest

from jetsync.server import NatsServer

FLAG = {"js_ack_fc_v2": True}


def with_flag(config: str | Mapping[str, Any] | None) -> str | dict[str, Any]:
    if isinstance(config, str):
        return config + "\nfeature_flags: {js_ack_fc_v2: true}\n"
    return {**(config or {}), "feature_flags": FLAG}


def pytest_configure(config: pytest.Config) -> None:
    plain = NatsServer.__init__

    @functools.wraps(plain)
    def flagged(self: NatsServer, *arguments: Any, **options: Any) -> None:
        plain(self, *arguments, **{**options, "config": with_flag(options.get("config"))})

    NatsServer.__init__ = flagged  # type: ignore[method-assign]


def pytest_report_header() -> str:
    return "acknowledgement subjects: second form (js_ack_fc_v2)"
