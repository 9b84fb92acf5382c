"""Real proxies on 127.0.0.1: tinyproxy (HTTP CONNECT), microsocks (SOCKS 5), socat (TLS)."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from jetsync.server.ports import free_port
from tests.csrc.build import clean_environment, compiler, run_tool
from tests.harness.waiting import wait_until

HERE = Path(__file__).parent


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@contextlib.contextmanager
def _undelayed() -> Iterator[dict[str, str]]:
    """The environment of a proxy that passes on at once, as over a network: see nodelay.c."""
    with tempfile.TemporaryDirectory() as folder:
        environment = clean_environment()
        if sys.platform == "linux":
            library = f"{folder}/nodelay.so"
            flags = ["-std=c11", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
            run_tool([*compiler(), *flags, str(HERE / "nodelay.c"), "-o", library])
            environment["LD_PRELOAD"] = library
        yield environment


@contextlib.contextmanager
def _running(port: int, *command: str) -> Iterator[int]:
    none = subprocess.DEVNULL
    with (
        _undelayed() as environment,
        subprocess.Popen(command, stdout=none, stderr=none, stdin=none, env=environment) as process,
    ):
        try:
            wait_until(lambda: process.poll() is not None or _listens(port), timeout=20)
            assert process.poll() is None, f"{command[0]} did not start"
            yield port
        finally:
            process.kill()


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name}; tests/protocol/test_proxy.py speaks with a proxy's bytes")
    return found


@contextlib.contextmanager
def http_proxy(entry: str = "") -> Iterator[int]:
    """Run an HTTP proxy; yields its port. ``entry``: "user password" that it asks for."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "tinyproxy.conf"
        lines = [f"Port {port}", "Listen 127.0.0.1", "Timeout 600", "MaxClients 50"]
        if entry:
            lines.append(f"BasicAuth {entry}")
        config.write_text("\n".join(lines) + "\n")
        with _running(port, _program("tinyproxy"), "-d", "-c", str(config)):
            yield port


@contextlib.contextmanager
def behind_tls(port: int, certificate: Path, key: Path) -> Iterator[int]:
    """Put TLS in front of a port, as an ``https://`` proxy has it; yields the port of that."""
    front = free_port()
    listen = f"OPENSSL-LISTEN:{front},bind=127.0.0.1,fork,cert={certificate},key={key},verify=0"
    with _running(front, _program("socat"), listen, f"TCP:127.0.0.1:{port}"):
        yield front


@contextlib.contextmanager
def socks_proxy(user: str = "", password: str = "") -> Iterator[int]:
    """Run a SOCKS 5 proxy; yields its port."""
    port = free_port()
    entry = ["-u", user, "-P", password] if user else []
    with _running(port, _program("microsocks"), "-i", "127.0.0.1", "-p", str(port), *entry):
        yield port
