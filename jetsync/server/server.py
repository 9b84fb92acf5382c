"""``NatsServer``: one nats-server as a child process."""

from __future__ import annotations

import http.client
import os
import secrets
import signal
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from jetsync._deadline import Deadline
from jetsync._locks import rlock
from jetsync.errors import ConfigError, ForkedError, ServerUnavailableError
from jetsync.server.binary import find_binary
from jetsync.server.config import Config, check_name, render
from jetsync.server.interrupts import interrupts_afterwards
from jetsync.server.ports import HOST, free_port
from jetsync.server.probe import get_json, takes_clients
from jetsync.server.process import Process
from jetsync.server.resources import Resources
from jetsync.server.scratch import Scratch, make_writable

__all__ = ["NatsServer", "PortTakenError"]

_POLL = 0.005
_PORT_ATTEMPTS = 5
_RELOADED = "Reloaded server configuration"
_NOT_RELOADED = "Failed to reload server configuration: "
_LAME_DUCK = "Entering lame duck mode"


class PortTakenError(ServerUnavailableError):
    """A port was free when it was chosen, and another program has it now: try again."""

    def __init__(self, message: str = "", *, line: str = "") -> None:
        super().__init__(message)
        self.line = line


class NatsServer:
    """The real nats-server as a child process on 127.0.0.1, for demos and tests.

    ``with NatsServer() as server: jetsync.connect(server.url)``

    It asks for no login unless ``config`` does: every user of this machine can connect.

    - ``jetstream``: switch JetStream on. Its files go to ``store_dir``, which is kept; without one,
      to a temporary folder that lives until ``stop()``.
    - ``port``: 0 takes a free one. Either way the server keeps its port over every later start.
    - ``config``: more configuration, as text in the server's own format or as a mapping
      (``{"max_payload": 1024, "authorization": {"token": "t"}}``). Address, ports, name and log
      are set by this class and win over it; a ``store_dir`` in it is refused by the server.
    - ``name``: the server's name; unique if not given.
    - ``binary``: which nats-server to run; see ``find_binary`` for what happens without.
    - ``arguments``: more command line arguments, such as ``["-DV"]``.

    The server dies with this process, whatever ends it, and Ctrl-C in the terminal does not reach
    it. Methods may be called from any thread and wait for each other. In a forked child the
    server still belongs to the parent: there ``stop()`` does nothing and the rest raises
    ``ForkedError``. Raises ``ConfigError`` for wrong arguments; nothing is started before
    ``start()`` or ``with``.
    """

    def __init__(
        self,
        *,
        jetstream: bool = True,
        store_dir: str | os.PathLike[str] | None = None,
        port: int = 0,
        config: Config | None = None,
        name: str | None = None,
        binary: str | os.PathLike[str] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        if not isinstance(port, int) or not 0 <= port <= 65535:
            raise ConfigError(f"port must be between 0 and 65535, got {port!r}")
        self._name = check_name(name or f"jetsync-{secrets.token_hex(4)}")
        self._config = render(config, self._name)
        self._jetstream = jetstream
        self._store_dir = None if store_dir is None else Path(store_dir).absolute()
        self._port = port
        self._monitor_port = 0
        self._binary = binary
        self._arguments = [*arguments]
        self._last_log = ""
        self._lock = rlock("server/server.py _lock")
        self._resources = Resources()
        self._finalizer = weakref.finalize(self, self._resources.release)

    # --- what it is --------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The server's name, as in its INFO."""
        return self._name

    @property
    def port(self) -> int:
        """The port for clients. Before the first start: the one asked for, maybe 0."""
        return self._port

    @property
    def url(self) -> str:
        """The URL for clients; it stays the same from the first start on."""
        if not self._port:
            raise ServerUnavailableError("the server has no port yet: call start() first")
        return f"nats://{HOST}:{self._port}"

    @property
    def pid(self) -> int | None:
        """The process id while it runs, else None."""
        process = self._process()
        return process.pid if process else None

    @property
    def is_running(self) -> bool:
        """Whether the process lives; a paused one does."""
        return self._process() is not None

    @property
    def store_dir(self) -> Path | None:
        """Where JetStream keeps its files; None while there is no such place."""
        scratch = self._resources.scratch
        return self._store_dir or (scratch.store if scratch else None)

    @property
    def log(self) -> str:
        """The end (256 KiB) of what the server wrote to its log; still there after ``stop()``."""
        scratch = self._resources.scratch
        return scratch.read_log() if scratch else self._last_log

    # --- starting and stopping ---------------------------------------------------------------

    def start(self, timeout: float = 10.0) -> NatsServer:
        """Start the server and wait until it takes clients and, if asked for, has JetStream.

        Returns the server itself. Blocks up to ``timeout`` seconds; does nothing if it runs
        already. After ``kill()`` it finds its store again. Raises ``ServerUnavailableError`` with
        the end of the server's log when it is not ready in time or ends early, and when there is
        no nats-server, no free port, or no place for its files; nothing keeps running then.
        """
        with self._lock:
            if self.is_running:
                return self
            deadline = Deadline(timeout)
            binary = find_binary(self._binary)
            is_first = self._resources.scratch is None
            try:
                self._launch(binary, self._prepare(), deadline)
            except BaseException:
                self._resources.kill()
                if is_first:
                    self._give_back()
                raise
            return self

    def stop(self, timeout: float = 10.0) -> None:
        """Shut the server down and remove its temporary files; a given ``store_dir`` stays.

        Blocks until it has ended: a server that has not within ``timeout`` seconds is killed.
        Does nothing if it is stopped already.
        """
        if self._resources.is_foreign:
            return
        deadline = Deadline(timeout)
        with self._lock:
            try:
                self._resources.terminate(deadline)
            finally:
                self._give_back()

    def kill(self) -> None:
        """End the server with SIGKILL, as a crash does. Its files stay for the next start."""
        with self._lock:
            self._process()  # refuses in a forked child
            self._resources.kill()

    def restart(self, timeout: float = 20.0) -> NatsServer:
        """Shut the server down and start it again with the same port and store.

        Blocks up to ``timeout`` seconds; half of them are for the shutdown. Raises as ``start()``.
        """
        deadline = Deadline(timeout)
        with self._lock:
            self._process()  # refuses in a forked child
            self._resources.terminate(Deadline(timeout / 2))
            return self.start(deadline.within(timeout))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the server has ended by itself, e.g. after ``lame_duck()``.

        Blocks up to ``timeout`` seconds (None: for ever); returns whether it has ended.
        """
        process = self._process()
        return process is None or process.wait(Deadline(timeout))

    def __enter__(self) -> NatsServer:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<NatsServer {self._name}, port {self._port}>"

    # --- disturbing --------------------------------------------------------------------------

    def pause(self, timeout: float = 5.0) -> None:
        """Freeze the server (SIGSTOP): connections stay open, nothing is answered.

        Blocks until it stands still, up to ``timeout`` seconds. Raises ``ServerUnavailableError``
        if it does not run.
        """
        with self._lock:
            process, _ = self._running()
            if not process.pause(Deadline(timeout)):
                raise self._failure(f"nats-server did not pause within {timeout} s.")

    def resume(self) -> None:
        """Let a paused server go on (SIGCONT). Does not block; harmless when it is not paused."""
        if process := self._process():
            process.signal(signal.SIGCONT)

    def reload(self, config: Config | None = None, timeout: float = 5.0) -> None:
        """Make the server read its configuration again (SIGHUP) and wait until it has.

        ``config`` replaces what the constructor was given. Blocks up to ``timeout`` seconds.
        Raises ``ConfigError`` with the server's words when it refuses, and keeps the earlier
        configuration then; ``ServerUnavailableError`` when it does not run or does not answer.
        """
        with self._lock:
            process, scratch = self._running()
            text = self._config if config is None else render(config, self._name)
            scratch.write_config(text)
            try:
                answers = (_RELOADED, _NOT_RELOADED)
                said = self._signal_and_hear(process, signal.SIGHUP, answers, timeout)
                if _NOT_RELOADED in said:
                    raise ConfigError(f"nats-server refused: {said.partition(_NOT_RELOADED)[2]}")
            except BaseException:
                scratch.write_config(self._config)
                raise
            self._config = text

    def lame_duck(self, timeout: float = 5.0) -> None:
        """Tell the server to say goodbye to its clients and end (SIGUSR2).

        Blocks until it has begun, up to ``timeout`` seconds; ``wait()`` waits for the end. How long
        that takes is the server's ``lame_duck_grace_period`` (10 s) and ``lame_duck_duration`` (2
        min), see ``config``. Raises ``ServerUnavailableError`` if it does not run or does not
        answer.
        """
        with self._lock:
            process, _ = self._running()
            self._signal_and_hear(process, signal.SIGUSR2, (_LAME_DUCK,), timeout)

    # --- asking ------------------------------------------------------------------------------

    def monitor(self, path: str, timeout: float = 2.0) -> dict[str, Any]:
        """Return what the monitoring endpoint says, e.g. ``monitor("varz")``.

        Blocks up to ``timeout`` seconds. Raises ``ServerUnavailableError`` if the server does not
        run or does not answer.
        """
        self._running()
        try:
            return get_json(self._monitor_port, path, Deadline(timeout))
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ServerUnavailableError(
                f"nats-server {self._name} did not answer {path!r}: {error}"
            ) from error

    # --- inside ------------------------------------------------------------------------------

    def _process(self) -> Process | None:
        """Return the process if it lives."""
        if self._resources.is_foreign:
            raise ForkedError("this nats-server belongs to another process (before a fork)")
        process = self._resources.process
        return process if process and process.exit_code() is None else None

    def _running(self) -> tuple[Process, Scratch]:
        process, scratch = self._process(), self._resources.scratch
        if process is None or scratch is None:
            raise ServerUnavailableError("the nats-server is not running: call start() first")
        return process, scratch

    def _prepare(self) -> Scratch:
        """Make the folders, and find out now whether they can be written."""
        if self._resources.scratch is None:
            with interrupts_afterwards():
                self._resources.scratch = Scratch()
        scratch = self._resources.scratch
        scratch.write_config(self._config)
        scratch.forget_ports()
        if self._jetstream:
            make_writable(self._store_dir or scratch.store)
        return scratch

    def _launch(self, binary: Path, scratch: Scratch, deadline: Deadline) -> None:
        """Start the process on ports that are free, and wait until it is ready."""
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            port = self._port or free_port()
            self._monitor_port = free_port()
            log_start = scratch.log_size()
            command = self._command(binary, scratch, port)
            with interrupts_afterwards():
                process = Process(command, log=scratch.log, scratch=scratch.path)
                self._resources.process = process
            try:
                self._await_ready(process, scratch, port, log_start, deadline)
            except PortTakenError as error:
                if f":{self._port} " in error.line or f":{self._port}:" in error.line:
                    raise ServerUnavailableError(
                        f"port {self._port} on {HOST} is taken by another program: end that one, "
                        "or use another port (0 takes a free one)."
                    ) from None
                if attempt == _PORT_ATTEMPTS:
                    raise
            else:
                self._port = port
                return

    def _command(self, binary: Path, scratch: Scratch, port: int) -> list[str]:
        # Arguments win over the configuration file, also when it is reloaded.
        return [
            str(binary),
            *("-c", str(scratch.config), "-l", str(scratch.log)),
            *("-a", HOST, "-p", str(port), "-m", str(self._monitor_port)),
            *("--ports_file_dir", str(scratch.ports), "-sd", str(self.store_dir)),
            *(["-js"] if self._jetstream else []),
            *self._arguments,
        ]

    def _await_ready(
        self, process: Process, scratch: Scratch, port: int, log_start: int, deadline: Deadline
    ) -> None:
        # Its ports file first: another process may listen on the port.
        while not (
            scratch.has_ports() and takes_clients(port, deadline, with_jetstream=self._jetstream)
        ):
            code = process.exit_code()
            if code is not None:
                last = scratch.read_log(log_start).strip().rpartition("\n")[2]
                if "address already in use" in last:
                    raise PortTakenError("a port was taken meanwhile: try again.", line=last)
                raise self._failure(f"nats-server ended (exit code {code}) before it was ready.")
            if deadline.expired:
                raise self._failure("nats-server was not ready in time.")
            time.sleep(_POLL)

    def _signal_and_hear(
        self, process: Process, number: signal.Signals, answers: tuple[str, ...], timeout: float
    ) -> str:
        """Send a signal and return the log line that answers it."""
        _, scratch = self._running()
        start, deadline = scratch.log_size(), Deadline(timeout)
        process.signal(number)
        while True:
            is_last = deadline.expired or process.exit_code() is not None
            for line in scratch.read_log(start).splitlines():
                if any(answer in line for answer in answers):
                    return line
            if is_last:
                raise self._failure(f"nats-server did not react to {number.name} in {timeout} s.")
            time.sleep(_POLL)

    def _failure(self, sentence: str) -> ServerUnavailableError:
        last = "\n  ".join(self.log.strip().splitlines()[-10:]) or "(nothing)"
        return ServerUnavailableError(f"{sentence} Its last lines:\n  {last}")

    def _give_back(self) -> None:
        self._last_log = self.log
        self._resources.release()
