"""Run a command in this process, and know what it printed and how it ended."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from jetsync.cli.main import main


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def lines(self) -> list[Any]:
        """JSON lines."""
        return [json.loads(line) for line in self.raw.splitlines()]


def run(*arguments: str, stdin: bytes = b"", **environment: str) -> Done:
    """Run ``jetsync ARGUMENTS``. Contexts and variables of this machine play no part."""
    raw, errors = io.BytesIO(), io.StringIO()
    out = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
    given = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    with (
        clean_environment(environment),
        mock.patch("sys.stdout", out),
        mock.patch("sys.stderr", errors),
        mock.patch("sys.stdin", given),
    ):
        try:
            code = main(arguments)
        except SystemExit as end:  # argparse ends so: --help, wrong options
            code = end.code if isinstance(end.code, int) else 1
    return Done(code, raw.getvalue(), errors.getvalue())


@contextlib.contextmanager
def clean_environment(more: dict[str, str]) -> Iterator[None]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NATS_")}
    more.setdefault("XDG_CONFIG_HOME", str(Path(__file__).parent / "no-such-folder"))
    with mock.patch.dict(os.environ, {**kept, **more}, clear=True):
        yield
