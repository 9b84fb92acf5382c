"""The leak check finds leaks, and a missing nats-server fails unless --no-server is given."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from jetsync.server.binary import ENVIRONMENT_VARIABLE

CODE = """
import pytest, socket, threading
from jetsync.client.shared import shared_connection
from jetsync.server import NatsServer

kept = []

def test_clean():
    with socket.socket():
        pass

def test_leaks():
    go = threading.Event()
    threading.Thread(target=go.wait, name="jetsync-reader", daemon=True).start()
    kept.extend([go, socket.socket(), open(__file__)])

def test_thread_of_others():
    go = threading.Event()
    threading.Thread(target=go.wait, name="other", daemon=True).start()
    kept.append(go)

def test_fixture(url):
    pass

def test_own_server():
    with NatsServer(jetstream=False):
        pass

@pytest.mark.spark
def test_spark_leaks():
    test_leaks()

@pytest.mark.spark
def test_spark_shares(url):
    kept.append(socket.socket())
    shared_connection(url).flush()
"""


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_it.py").write_text(CODE)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = spark\n")
    return folder


def run(folder, *arguments, **environment):
    plugins = ("-p", "tests.harness.nats_server", "-p", "tests.harness.leaks")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", *plugins, *arguments, str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    ).stdout


def test_leaked_sockets_files_and_threads_are_found_and_nothing_else(suite):
    said = run(suite, "-k", "(clean or leaks or others) and not spark")
    assert "1 error" in said
    assert "3 passed" in said
    (found,) = re.findall(r"E +Failed: left behind: (.*)", said)
    assert found.startswith("threads ['jetsync-reader'], descriptors")
    kinds = re.findall(r"\((.*?)[:)]", found)
    assert sorted(kinds) == [str(suite / "test_it.py"), "socket"]


def test_beside_spark_threads_are_found_but_for_those_of_shared_connections(suite):
    """Spark opens sockets when it likes, and each process keeps its shared connections."""
    said = run(suite, "-k", "spark")
    assert "2 passed" in said
    assert "1 error" in said
    assert re.findall(r"E +Failed: left behind: (.*)", said) == [
        "threads ['jetsync-reader'], descriptors []"
    ]


def test_a_missing_nats_server_is_a_failure(suite):
    said = run(suite, "-k", "server or fixture", **{ENVIRONMENT_VARIABLE: "/missing"})
    assert "1 failed, " in said
    assert "1 error" in said
    assert "skipped" not in said


def test_no_server_skips_what_needs_one_and_only_that(suite):
    said = run(suite, "-k", "server or fixture or clean", "--no-server")
    assert "1 passed, 2 skipped" in said
