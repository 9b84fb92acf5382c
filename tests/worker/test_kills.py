"""No job is lost, whatever is killed: workers, their parents, servers, stream leaders (G41)."""

from __future__ import annotations

import collections
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import jetsync
from jetsync import Error
from jetsync.server import NatsCluster, NatsServer
from tests.harness.figures import Recorder
from tests.harness.soak import SOAKING, scaled
from tests.harness.waiting import wait_until
from tests.worker.unlost import KEYS, LOG, Log, Repeat, is_poison

ROOT = Path(__file__).parents[2]
JOBS = scaled(600, 100_000)
KILLS = scaled(2, 24)
ACK_WAIT = scaled(2.0, 5.0)
UNSENT = 0.5
"""Seconds before the kill of a worker in which it may not have sent what it acknowledged."""
FORGOTTEN = 2.0
"""Seconds before the kill of a server whose acknowledgements it may have forgotten."""
HELD = 3.0
"""Seconds after a server is back: a worker reconnects (2.0) and does what it held before."""

long_form = pytest.mark.skipif(not SOAKING, reason="make soak; each commit has the one above")


class Workers:
    """``jetsync worker`` as a service manager runs it: what ends is started again."""

    def __init__(self, target: str, urls: str, log: Path) -> None:
        self._command = [sys.executable, "-m", "jetsync.worker", f"tests.worker.unlost:{target}"]
        self._errors = log.with_suffix(".errors").open("ab")
        self._environment = {**os.environ, LOG: str(log), "NATS_URL": urls}
        self._environment["PYTHONPATH"] = os.pathsep.join(
            (str(Path(jetsync.__file__).parents[1]), str(ROOT))
        )
        self.killed: dict[int, float] = {}
        self._is_over = threading.Event()
        self._start()
        self._manager = threading.Thread(target=self._keep_up, name="manager")
        self._manager.start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [*self._command, "--no-context"],
            cwd=ROOT,
            env=self._environment,
            stderr=self._errors,
        )

    def _keep_up(self) -> None:
        while not self._is_over.wait(0.1):
            if self._process.poll() is not None:
                self._start()

    def children(self) -> list[int]:
        """The processes that do the work of a parent."""
        pid = self._process.pid
        try:
            found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            return [int(pid) for pid in found if b"spawn_main" in _command(int(pid))]
        except OSError:
            return []

    def kill(self, pid: int) -> None:
        """Kill a process of them, and note when."""
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.killed[pid] = time.monotonic()

    def kill_one(self) -> None:
        """Kill one that works: a child, or the process itself when it has none."""
        children = self.children()
        self.kill(children[0] if children else self._process.pid)

    def kill_parent(self) -> None:
        """Kill the parent; its children drain, since no process looks after them any more."""
        self.kill(self._process.pid)

    def end(self) -> int:
        """Let them drain; return the exit code."""
        self._is_over.set()
        self._manager.join()
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)

    def close(self) -> None:
        """End what still runs."""
        self._is_over.set()
        self._manager.join()
        for pid in self.children():
            self.kill(pid)
        self._process.kill()
        self._process.wait()
        self._errors.close()


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


class Servers:
    """One server, or three, that can be killed and come back."""

    def __init__(self, servers: list[NatsServer], urls: str) -> None:
        self.servers, self.urls = servers, urls
        self.killed: list[tuple[float, float]] = []
        """When servers were killed, and when the consumer had a leader again that answers."""

    @property
    def replicas(self) -> int:
        return min(3, len(self.servers))

    def kill(self, consumer: jetsync.Consumer, *servers: NatsServer) -> None:
        """Kill them at once, start them again after a moment, and wait for the consumer: without
        its leader acknowledgements get lost."""
        at = time.monotonic()
        for server in servers:
            server.kill()
        time.sleep(0.5)  # so that clients see more than a link that is cut
        for server in servers:
            server.start(60)
        wait_until(lambda: _info(consumer) is not None, timeout=60)
        self.killed.append((at, time.monotonic()))

    def kill_leader(self, js: jetsync.JetStream, consumer: jetsync.Consumer) -> None:
        info = js.stream("UNLOST", timeout=30).info(timeout=30)
        assert info.cluster is not None
        self.kill(consumer, next(one for one in self.servers if one.name == info.cluster.leader))


@pytest.fixture
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    if request.param == "server":
        with NatsServer() as one:
            yield Servers([one], one.url)
    else:
        with NatsCluster(3) as cluster:
            yield Servers(cluster.servers, cluster.url)


@pytest.mark.parametrize(
    ("servers", "target"),
    [
        ("server", "in_order"),
        pytest.param("server", "side_by_side", marks=long_form),
        pytest.param("cluster", "in_order", marks=long_form),
        pytest.param("cluster", "side_by_side", marks=long_form),
    ],
    indirect=["servers"],
)
def test_no_job_is_lost_whatever_is_killed(
    servers: Servers, target: str, tmp_path: Path, record_figure: Recorder
):
    """And none is done twice but by a kill: of its worker, or of a server."""
    run = _all_done(servers, target, tmp_path, _kill)
    workers = run.workers
    found = [(_explanation(repeat, workers, servers), repeat) for repeat in run.log.repeats()]
    print("workers killed:", workers.killed, "servers killed and back:", servers.killed)
    for explanation, repeat in found:
        print(explanation, repeat)
    unexplained = [str(repeat) for explanation, repeat in found if explanation is None]
    where = f"G41 {target}, {len(servers.servers)} servers"
    run.hold(where, record_figure)
    record_figure(f"{where}: done twice while worker and servers lived", len(unexplained), goal="0")
    assert not unexplained
    record_figure(f"{where}: kills", len(workers.killed) + len(servers.killed))
    for kind in ("worker", "server"):
        count = sum(explanation == kind for explanation, _ in found)
        record_figure(f"{where}: done twice, by the kill of a {kind}", count)
    record_figure(f"{where}: jobs a second, kills included", JOBS / run.seconds, "1/s")


@pytest.mark.parametrize("servers", ["server"], indirect=True)
@pytest.mark.parametrize("target", ["in_order", pytest.param("side_by_side", marks=long_form)])
def test_no_job_is_done_twice_while_nothing_is_killed(
    servers: Servers, target: str, tmp_path: Path, record_figure: Recorder
):
    run = _all_done(servers, target, tmp_path, lambda *_: None)
    where = f"G41 {target}, nothing is killed"
    run.hold(where, record_figure)
    repeats = [str(repeat) for repeat in run.log.repeats()]
    record_figure(f"{where}: done twice", len(repeats), goal="0")
    assert not repeats
    record_figure(f"{where}: jobs a second", JOBS / run.seconds, "1/s")


@dataclass
class Run:
    """All jobs, as they were done, and the dead letters in the order in which they were stored."""

    target: str
    log: Log
    workers: Workers
    servers: Servers
    dead: list[int]
    seconds: float

    def hold(self, where: str, record_figure: Recorder) -> None:
        """Each job was done at least once, the dead letters are the poison, and keys are in
        order. What was counted is recorded first."""
        poison = {number for number in range(JOBS) if is_poison(number)}
        lost = set(range(JOBS)) - poison - self.log.done
        lost |= poison - set(self.dead)
        wrong = collections.Counter(self.dead)
        wrong.subtract(poison)
        wrongly_dead = +wrong  # jobs that are no poison, and second letters of one
        disorder: list[object] = []
        if self.target == "in_order":
            pairs = self.log.order_of_keys()
            disorder += (pair for pair in pairs if pair[0].number > pair[1].number)
            disorder += self.log.beside_each_other()
        record_figure(f"{where}: lost", len(lost), goal="0")
        record_figure(f"{where}: wrongly dead", wrongly_dead.total(), goal="0")
        record_figure(f"{where}: out of order", len(disorder), goal="0")
        assert not lost, (self.log.of(lost), self.servers.killed, self.workers.killed)
        assert not wrongly_dead, self.log.of(set(wrongly_dead))
        assert not disorder


Kill = Callable[[Workers, Servers, jetsync.JetStream, Log], object]


def _all_done(servers: Servers, target: str, folder: Path, kill: Kill) -> Run:
    """Let all jobs be done while something is killed, until the consumer has nothing more."""
    log = Log(folder / "log")
    with jetsync.connect(servers.urls, timeout=30) as nc:
        js = nc.jetstream(timeout=30)
        for name, subject in (("UNLOST", "unlost.*"), ("DEAD", "dead.>")):
            js.create_stream(name=name, subjects=[subject], num_replicas=servers.replicas)
        consumer = js.create_consumer(
            "UNLOST", durable_name="unlost", ack_wait=ACK_WAIT, max_deliver=-1
        )
        js.publish_many((f"unlost.{n % KEYS}", str(n).encode()) for n in range(JOBS))
        workers = Workers(target, servers.urls, log.path)
        try:
            begun = time.monotonic()
            kill(workers, servers, js, log)
            most = sum(not is_poison(number) for number in range(JOBS))
            wait_until(lambda: log.read() and len(log.done) >= most, timeout=600)
            wait_until(lambda: _is_settled(consumer), timeout=scaled(30, 120))
            seconds = time.monotonic() - begun
            assert workers.end() == 0
        finally:
            workers.close()
        dead = _dead(js.stream("DEAD"))
    log.read()
    return Run(target, log, workers, servers, dead, seconds)


def _dead(letters: jetsync.Stream) -> list[int]:
    """The numbers of the jobs of which there are dead letters."""
    last = letters.info().state.last_seq
    return [int(letters.get_msg(seq).data) for seq in range(1, last + 1)]


def _kill(workers: Workers, servers: Servers, js: jetsync.JetStream, log: Log) -> None:
    """Kill something each time that another part of the jobs is done."""
    consumer = js.consumer("UNLOST", "unlost")
    kinds: list[Callable[[], object]] = [
        workers.kill_one,
        lambda: servers.kill(consumer, servers.servers[-1]),
        workers.kill_parent,
    ]
    if len(servers.servers) > 1:
        kinds += [
            lambda: servers.kill_leader(js, consumer),
            lambda: servers.kill(consumer, *servers.servers),
        ]
    for number, kill in enumerate(itertools.islice(itertools.cycle(kinds), KILLS), 1):
        part = JOBS * number // (KILLS + 1)
        log.wait_for(part, timeout=scaled(30, 300))
        kill()


def _info(consumer: jetsync.Consumer) -> jetsync.ConsumerInfo | None:
    try:
        return consumer.info()
    except Error:  # no leader yet
        return None


def _is_settled(consumer: jetsync.Consumer) -> bool:
    info = _info(consumer)
    return info is not None and info.num_pending == info.num_ack_pending == 0


def _explanation(repeat: Repeat, workers: Workers, servers: Servers) -> str | None:
    """Which kill explains that a job was done again: that of its worker, before it had sent the
    acknowledgement, or that of a server, which forgot the acknowledgement, or the delivery of a
    message that a worker held meanwhile. None: it was done twice while all of them lived."""
    done, again = repeat.done.at, repeat.begun_again.at
    killed = workers.killed.get(repeat.done.process)
    if killed is not None and killed - UNSENT <= done and killed <= again:
        return "worker"
    if any(at - FORGOTTEN <= done <= back + HELD and at <= again for at, back in servers.killed):
        return "server"
    return None
