"""What commands print about a cluster of three, word for word.

``golden/session.txt`` is a session: commands behind "$", and below each what it printed and how it
ended. With JETSYNC_WRITE_GOLDEN=1 the file is written anew, to be read before it is committed.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from jetsync.server import NatsCluster
from tests.cli.run_command import run

FILE = Path(__file__).parent / "golden/session.txt"
CHANGING = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "TIME"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r"jetsync-[0-9a-f]+(-\d)?", "SERVER"),
    (r"SERVER \((\d+ )?behind\)", "SERVER"),
    (r"(Name  ) +\S+", r"\1 SOME"),
    (r"\(\d[\d.]* (B|KiB|MiB)\)", "(SIZE)"),
    (r"(, just now|, [\dms.]+ ago)", ", AGO"),
    (r"\b(now|\d+m?s)$", "AGO"),
    (r"_nats\.\S+", "_nats.SOMETHING"),
)


def normalised(text: str) -> str:
    for pattern, word in CHANGING:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    # Where a column is as wide as what changes, so are the spaces around it.
    return re.sub(r" {2,}", "  ", "\n".join(line.rstrip() for line in text.splitlines()))


def commands() -> list[str]:
    return [line[2:] for line in FILE.read_text().splitlines() if line.startswith("$ ")]


def played(url: str) -> str:
    parts = []
    for command in commands():
        done = run(*shlex.split(command), NATS_URL=url, NATS_TIMEOUT="10s")
        text = normalised(done.out + done.err)
        ended = f"=> {done.code}\n" if done.code else ""
        parts.append(f"$ {command}\n{text}\n{ended}")
    return "\n".join(parts)


def test_a_session_at_a_cluster_prints_what_it_always_printed(
    cluster: NatsCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # its files
    said = played(cluster.url)
    if os.environ.get("JETSYNC_WRITE_GOLDEN"):
        FILE.write_text(said)
    assert said.splitlines() == FILE.read_text().splitlines()


@pytest.mark.parametrize("word", ["TIME", "SERVER", "AGO", "SIZE"])
def test_what_changes_is_replaced_and_nothing_else(word: str) -> None:
    shown = {
        "TIME": "2026-11-22 20:15:01 UTC",
        "SERVER": "jetsync-0a1b2c3d-2",
        "AGO": "ORDERS  3s",
        "SIZE": "to a folder (12.5 KiB)",
    }[word]
    assert word in normalised(shown)
    assert normalised("orders 12,345") == "orders 12,345"
