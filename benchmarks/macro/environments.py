"""Make each peer ready to run: compile it, or give it an environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

PEERS = Path(__file__).parent / "peers"


@dataclass(frozen=True)
class Spec:
    """How a peer is made. With ``requires``, packages with their versions, it gets a throw-away
    environment; with ``uvloop`` in it that is its event loop."""

    name: str
    program: str
    title: str
    slow: bool = False
    requires: str = ""
    python: tuple[int, int] = (3, 10)
    libraries: tuple[str, ...] = ()


SPECS = (
    Spec("raw", "raw.c", "raw socket, C"),
    Spec("jetsync", "jetsync_peer.py", "jetsync"),
    Spec("nats_c", "nats_c.c", "nats.c", libraries=("-lnats",)),
    Spec("nats_py", "nats_py_peer.py", "nats-py", slow=True, requires="nats-py>=2.16"),
    Spec(
        *("nats_py_uvloop", "nats_py_peer.py", "nats-py, uvloop"),
        slow=True,
        requires="nats-py>=2.16 uvloop>=0.22",
    ),
    Spec(
        *("nats_py_sync", "nats_py_sync_peer.py", "nats-py-sync"),
        slow=True,
        requires="nats-py-sync>=0.3",
    ),
    Spec(
        *("nats_core", "nats_core_peer.py", "nats-core"),
        slow=True,
        requires="nats-core>=0.2 nats-jetstream>=0.3 nkeys",
        python=(3, 13),
    ),
    Spec("natsio", "natsio_peer.py", "natsio", slow=True, requires="natsio>=1", python=(3, 13)),
    Spec("natsrpy", "natsrpy_peer.py", "natsrpy", slow=True, requires="natsrpy>=0.1.4"),
)
GROWTH = (
    Spec("jetsync", "jetsync_growth.py", "jetsync"),
    Spec("nats_c", "nats_c_growth.c", "nats.c", libraries=("-lnats", "-pthread")),
    Spec("nats_py", "nats_py_growth.py", "nats-py", slow=True, requires="nats-py>=2.16"),
)


@dataclass(frozen=True)
class Peer:
    """A peer that can run here, or ``missing`` says why it cannot."""

    spec: Spec
    command: tuple[str, ...] = ()
    version: str = ""
    runs: str = ""
    workloads: frozenset[str] = field(default_factory=frozenset)
    missing: str = ""


class Missing(Exception):
    """This peer cannot run here."""


def prepare(spec: Spec, folder: Path) -> Peer:
    """Build or install one peer below ``folder``; what is there already is used again."""
    try:
        command = _command(spec, folder)
        said = json.loads(_run([*command, "list"]).splitlines()[-1])
    except (Missing, OSError, ValueError, IndexError) as error:
        return Peer(spec, missing=str(error))
    return Peer(spec, tuple(command), said["version"], said["runs"], frozenset(said["workloads"]))


def _command(spec: Spec, folder: Path) -> list[str]:
    source = PEERS / spec.program
    if source.suffix == ".c":
        return [str(_compile(source, spec.libraries, folder))]
    python = _environment(spec, folder) if spec.requires else sys.executable
    return [python, str(source)]


def _compile(source: Path, libraries: Sequence[str], folder: Path) -> Path:
    program = folder / source.stem
    newest = max(path.stat().st_mtime for path in (source, PEERS / "meter.h"))
    if not program.exists() or program.stat().st_mtime < newest:
        folder.mkdir(parents=True, exist_ok=True)
        compiler = os.environ.get("CC", "cc")
        try:
            _run([compiler, "-O2", "-o", str(program), str(source), *libraries])
        except Missing as error:
            wanted = " and ".join(libraries)
            hint = f"needs {wanted} and its headers (Debian: libnats-dev)" if wanted else ""
            raise Missing(hint or str(error)) from None
    return program


def _environment(spec: Spec, folder: Path) -> str:
    interpreter = _interpreter(spec.python)
    version = _run([interpreter, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).strip()
    home = folder / f"{spec.name}-{version}"
    python, stamp = home / "bin" / "python", home / "installed"
    if not stamp.exists() or stamp.read_text() != spec.requires:
        shutil.rmtree(home, ignore_errors=True)
        _run([interpreter, "-m", "venv", str(home)])
        quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
        # Nothing is compiled here; nkeys, without compiled code, is published without wheels.
        wheels = ("--only-binary=:all:", "--no-binary=nkeys")
        _run([str(python), "-m", "pip", "install", *quiet, *wheels, *spec.requires.split()])
        stamp.write_text(spec.requires)
    return str(python)


def _interpreter(least: tuple[int, int]) -> str:
    """This Python, or another of the machine's that is new enough."""
    if sys.version_info >= least:
        return sys.executable
    for minor in range(least[1], least[1] + 4):
        for found in (shutil.which(f"python3.{minor}"), _pyenv(minor)):
            # A name may exist and still not run, such as the shim of a version manager.
            if found and _runs(found):
                return found
    raise Missing(f"needs Python {least[0]}.{least[1]}; there is none here")


def _runs(python: str) -> bool:
    return subprocess.run([python, "-V"], check=False, capture_output=True).returncode == 0


def _pyenv(minor: int) -> str | None:
    """A Python of the user's version manager that is not switched on."""
    found = sorted((Path.home() / ".pyenv/versions").glob(f"3.{minor}.*/bin/python3"))
    return str(found[-1]) if found else None


def surroundings() -> dict[str, str]:
    """The environment variables of a peer: it finds its modules in the folder it stands in."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(
        command,
        check=False,
        env=surroundings(),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no output"]
        raise Missing(f"{Path(command[0]).name} failed: {last[0][:200]}")
    return done.stdout
