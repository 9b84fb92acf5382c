"""The server ends with the process that started it, however that ends, and not before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from jetsync.errors import ForkedError
from jetsync.server import NatsServer
from tests.harness.raw import RawClient
from tests.harness.waiting import wait_until
from tests.server.processes import is_alive

START = """
import os, signal, sys
from jetsync.server import NatsServer
server = NatsServer().start()
print(server.pid, server.store_dir.parent, flush=True)
"""


def child(code, **options):
    """Run START and then the code in a Python of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", START + textwrap.dedent(code)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    assert process.stdout is not None
    pid, folder = process.stdout.readline().split()
    return process, int(pid), Path(folder)


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("raise RuntimeError", 1),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("os._exit(4)", 4),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("server.pause(); os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    ],
)
def test_it_ends_with_its_parent_and_its_files_too(code, result):
    process, pid, folder = child(code)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == result
    assert bool(errors) == ("raise" in code)
    wait_until(lambda: not is_alive(pid), timeout=10)
    wait_until(lambda: not folder.exists(), timeout=10)


def test_ctrl_c_in_the_terminal_does_not_reach_it():
    code = """
    try:
        print("waiting", flush=True)
        sys.stdin.read()
    except KeyboardInterrupt:
        print("interrupted", server.is_running, flush=True)
        sys.stdin.read()
    """
    process, pid, _ = child(code, start_new_session=True)
    with process:
        assert process.stdout.readline() == "waiting\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "interrupted True\n"
        assert is_alive(pid)
        process.stdin.close()
    assert not is_alive(pid)


def test_a_forked_child_that_exits_leaves_it_to_the_parent():
    code = """
    if os.fork() == 0:
        server.stop()
        sys.exit()
    os.wait()
    print(server.is_running, os.path.exists(server.store_dir), flush=True)
    """
    process, pid, _ = child(code)
    assert process.communicate(timeout=30) == ("True True\n", "")
    assert not is_alive(pid)


def test_a_forked_child_is_told_that_it_is_not_its_server():
    with NatsServer() as server:
        pid = os.fork()
        if pid == 0:
            told = 0
            for act in (server.start, server.kill, server.restart, server.pause, server.reload):
                try:
                    act()
                except ForkedError:
                    told += 1
            os._exit(told)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
        with RawClient(server.url) as raw:
            raw.handshake()
