"""The pytest plugin, in runs of pytest on projects of their own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jetsync.server import NatsServer
from tests.harness.soak import SOAKING, scaled
from tests.harness.waiting import wait_until

ROOT = Path(__file__).parents[2]
_CI = {"CI", "BUILD_NUMBER"}  # with these pytest repeats each failure in full

OUTCOMES = """
import time, jetsync, pytest

def test_leaks(nats_url):
    global nc
    nc = jetsync.connect(nats_url)

@pytest.mark.nats(config="max_payload: 1000")
def test_config(nats_connection):
    assert nats_connection.server_info.max_payload == 1000

@pytest.mark.nats(min_version="99.1")
def test_newer(nats_js):
    raise AssertionError

def test_log(nats_js):
    nats_js.create_stream(name="S")
    raise ValueError("on purpose")

def test_after(nats_js):
    assert list(nats_js.stream_names()) == []
"""

CLUSTER = """
import jetsync

def test_cluster(nats_cluster):
    with jetsync.connect(nats_cluster.urls, timeout=20) as nc:
        cluster = nc.jetstream().create_stream(name="S", num_replicas=3).info().cluster
    assert {cluster.leader, *(one.name for one in cluster.replicas)} == {
        server.name for server in nats_cluster.servers
    }
"""

UNITTEST = """
import unittest
import pytest

class TestOrders(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def use(self, nats_js):
        self.js = nats_js

    def setUp(self):
        self.js.create_stream(name="ORDERS", subjects=["orders.>"])

    def test_one(self):
        self.assertEqual(self.js.publish("orders.a", b"1").seq, 1)

    def test_two(self):
        self.assertEqual(self.js.publish("orders.b", b"2").seq, 1)
"""

WAITS = """
import pathlib, time

def test_waits(nats_js):
    nats_js.create_stream(name="S")
    pathlib.Path("ready").touch()
    time.sleep(60)  # until the signal
"""


def command(*arguments: str) -> list[str]:
    """Without other plugins, which take seconds to load."""
    return [sys.executable, "-m", "pytest", "-p", "jetsync.testing.plugin", *arguments]


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Servers keep their files below a folder of the test, so they are known by it."""
    (folder / "tmp").mkdir(exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST") and k not in _CI}
    return {
        **kept,
        "TMPDIR": str(folder / "tmp"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        **more,
    }


def run(folder: Path, *arguments: str, **more: str) -> tuple[int, str]:
    (folder / "pytest.ini").touch()
    done = subprocess.run(
        command(*arguments),
        cwd=folder,
        env=environment(folder, **more),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def servers_of(folder: Path) -> list[int]:
    """The processes whose command line names a folder."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and int(process.name) != os.getpid():
            try:
                line = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if b"nats-server" in line and str(folder).encode() in line:
                found.append(int(process.name))
    return found


def test_the_tests_of_a_project_run_side_by_side_without_seeing_each_other(tmp_path):
    """The hundred tests of the example; on every commit a few of them."""
    project = shutil.copytree(ROOT / "examples/testing", tmp_path / "project")
    processes, rounds = scaled(("2", "1"), ("8", "14"))
    code, out = run(project, "-q", "-p", "xdist", "-n", processes, ROUNDS=rounds)
    assert code == 0, out
    found = re.search(r"(\d+) passed in ([\d.]+)s", out)
    assert found is not None, out
    assert int(found[1]) == 7 * int(rounds) + 2
    assert not SOAKING or float(found[2]) < 20
    assert servers_of(tmp_path) == []


def test_a_cluster_is_there_when_a_test_asks_for_it_and_is_gone_afterwards(tmp_path):
    (tmp_path / "test_cluster.py").write_text(CLUSTER)
    code, out = run(tmp_path, "-q")
    assert code == 0, out
    assert servers_of(tmp_path) == []


def test_classes_of_unittest_use_the_fixtures(tmp_path):
    """Each of their tests has an empty account, as others have."""
    (tmp_path / "test_it.py").write_text(UNITTEST)
    code, out = run(tmp_path, "-q")
    assert code == 0, out
    assert "2 passed" in out


def test_a_test_fails_by_what_it_leaves_behind_and_shows_the_log_of_its_server(tmp_path):
    (tmp_path / "test_it.py").write_text(OUTCOMES)
    code, out = run(tmp_path, "-rA")
    assert code == 1
    assert re.search(r"ERROR test_it.py::test_leaks - .*left behind: jetsync-", out), out
    assert "PASSED test_it.py::test_config" in out
    assert "needs nats-server 99.1, this is 2." in out
    assert "FAILED test_it.py::test_log" in out
    assert "PASSED test_it.py::test_after" in out
    assert "log of nats-server (call)" in out
    code, out = run(tmp_path, "-o", "nats_leaks=off", "-k", "leaks")
    assert code == 0, out


def test_a_missing_server_is_an_error_that_names_the_remedy(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "def test_it(nats_js): ...\ndef test_three(nats_cluster): ...\n"
    )
    binary = ("--nats-binary", str(tmp_path / "none"))
    code, out = run(tmp_path, *binary)
    assert code == 1
    assert out.count('pip install "jetsync[testing]"') == 2
    code, out = run(tmp_path, *binary, "--nats-optional")
    assert code == 0
    assert "2 skipped" in out


def test_a_running_server_is_used_and_left_as_it_was(tmp_path, fresh_server: NatsServer):
    """Only what a test created goes: not what was there, nor what others create meanwhile."""
    (tmp_path / "test_it.py").write_text(
        "import jetsync\n"
        "def test_it(nats_js, nats_url):\n"
        "    assert list(nats_js.stream_names()) == ['MINE']\n"
        "    nats_js.create_stream(name='MINE')\n"
        "    nats_js.create_stream(name='TEST')\n"
        "    nats_js.create_or_update_stream(name='TEST2')\n"
        "    nats_js.create_key_value(bucket='TEST3')\n"
        "    nats_js.create_object_store(bucket='TEST4')\n"
        "    nats_js.create_stream(name='GIVEN').delete()\n"
        "    with jetsync.connect(nats_url) as nc:\n"
        "        nc.jetstream().create_stream(name='OTHERS')\n"
        "        nc.jetstream().create_stream(name='GIVEN')\n"
    )
    import jetsync

    with jetsync.connect(fresh_server.url) as nc:
        js = nc.jetstream()
        js.create_stream(name="MINE")
        code, out = run(tmp_path, "--nats-url", fresh_server.url)
        assert code == 0, out
        assert sorted(js.stream_names()) == ["GIVEN", "MINE", "OTHERS"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_server_outlives_pytest(tmp_path, number):
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "test_it.py").write_text(WAITS)
    process = subprocess.Popen(
        command("-q"), cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.DEVNULL
    )
    try:
        wait_until((tmp_path / "ready").exists, timeout=30)
        assert servers_of(tmp_path)
        process.send_signal(number)
        process.wait(20)
        wait_until(lambda: not servers_of(tmp_path), timeout=10)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_pytest_finds_the_plugin():
    text = (ROOT / "pyproject.toml").read_text()
    assert '[project.entry-points.pytest11]\njetsync = "jetsync.testing.plugin"' in text


def test_the_plugin_imports_neither_client_nor_server():
    code = (
        "import sys, pytest, jetsync.testing.plugin\n"
        "print(*sorted({m.split('.')[1] for m in sys.modules if m.startswith('jetsync.')}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert loaded <= {
        *("_core", "_counted", "_printable", "_version", "errors", "headers", "testing")
    }


MARKERS = """
import pytest

@pytest.mark.nats(min_versoin="99.1")
def test_misspelt(nats_js): pass

@pytest.mark.nats(min_version="newest")
def test_no_version(nats_js): pass

@pytest.mark.nats("2.12")
def test_without_name(nats_js): pass

@pytest.mark.nats(min_version=2.12)
def test_number(nats_js): pass

@pytest.mark.nats(min_version="2")
def test_right(nats_js): pass
"""


def test_a_marker_that_means_nothing_fails_its_test(tmp_path):
    """Otherwise the test would run on a server that it must not see."""
    (tmp_path / "test_markers.py").write_text(MARKERS)
    code, out = run(tmp_path, "-q")
    assert code == 1
    assert "1 passed, 4 errors" in out
    for said in ("not min_versoin", "not 'newest'", "not '2.12'", "not 2.12"):
        assert said in out
