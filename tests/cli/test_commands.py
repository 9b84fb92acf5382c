"""The command line itself, and ``jetsync server``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jetsync import __version__, connect
from tests.cli.demo_process import jetsync


def test_version_and_usage(tmp_path: Path) -> None:
    assert jetsync(tmp_path, "--version").end().out == f"jetsync {__version__}\n"
    nothing = jetsync(tmp_path).end()
    assert nothing.code == 2
    assert "usage: jetsync" in nothing.err
    assert jetsync(tmp_path, "no-such-command").end().code == 2


def test_output_to_a_pipe_without_a_reader_is_no_error(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "jetsync", "server", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(30) == 1
        assert process.stderr.read() == b""


@pytest.mark.parametrize(("press", "code"), [("press_ctrl_c", 0), ("terminate", 143)])
def test_a_server_runs_until_it_is_told_to_stop(tmp_path: Path, press: str, code: int) -> None:
    store = tmp_path / "store"
    running = jetsync(tmp_path, "server", "--port", "0", "--store-dir", str(store))
    with connect(running.wait_for_line(), reconnect=False) as nc:
        nc.jetstream().create_stream(name="S", subjects=["s"])
        nc.jetstream().publish("s", b"kept")
    getattr(running, press)()
    ended = running.end()
    assert ended.code == code
    assert "Traceback" not in ended.err
    assert running.survivors() == []

    again = jetsync(tmp_path, "server", "--port", "0", "--store-dir", str(store))
    with connect(again.wait_for_line()) as nc:
        assert nc.jetstream().stream("S").get_msg(1).data == b"kept"
    again.press_ctrl_c()
    assert again.end().code == 0


def test_a_cluster_runs_until_ctrl_c(tmp_path: Path) -> None:
    running = jetsync(tmp_path, "server", "--cluster", "3")
    urls = running.wait_for_line()
    assert len(urls.split(",")) == 3
    with connect(urls) as nc:
        stream = nc.jetstream().create_stream(name="S", subjects=["s"], num_replicas=3)
        assert stream.info().config.num_replicas == 3
    running.press_ctrl_c()
    assert running.end().code == 0
    assert running.survivors() == []


def test_a_server_that_dies_by_itself_is_reported(tmp_path: Path) -> None:
    running = jetsync(tmp_path, "server", "--port", "0")
    running.wait_for_line()
    running.kill_children("nats-server")
    ended = running.end()
    assert ended.code == 1
    assert "has ended by itself" in ended.said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--port", "99999"], "port must be between 0 and 65535"),
        (["--cluster", "1"], "size must be 2 or more"),
        (["--cluster", "3", "--port", "4222"], "--port goes with a single server"),
    ],
)
def test_senseless_options(tmp_path: Path, arguments: list[str], words: str) -> None:
    ended = jetsync(tmp_path, "server", *arguments).end()
    assert ended.code == 2
    assert words in ended.said
