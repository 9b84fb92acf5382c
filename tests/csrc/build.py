"""Compile csrc with sanitizers, for the C tests and the fuzz driver."""

from __future__ import annotations

import os
import shlex
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.protocol.golden import samples

ROOT = Path(__file__).parents[2]
CSRC = ROOT / "csrc"
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FLAGS = ("-std=c11", "-g", "-O1", "-fno-omit-frame-pointer", "-Wall", "-Wextra", "-Werror")


def compiler() -> list[str]:
    return shlex.split(os.environ.get("CC", "gcc"))


def build(
    folder: Path, name: str, sources: list[Path], library_flags: tuple[str, ...] = ()
) -> Path:
    """Compile `sources` and all of csrc (with `library_flags` too) into `folder`/`name`."""
    jobs: list[tuple[Path, tuple[str, ...]]] = [(s, (f"-I{CSRC}",)) for s in sources]
    jobs += [(source, library_flags) for source in sorted(CSRC.glob("*.c"))]

    def compile_one(job: tuple[Path, tuple[str, ...]]) -> str:
        source, flags = job
        target = folder / f"{name}-{source.stem}.o"
        _run([*compiler(), *FLAGS, *SANITIZE, *flags, "-c", str(source), "-o", str(target)])
        return str(target)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, jobs))
    program = folder / name
    _run([*compiler(), *SANITIZE, *objects, "-o", str(program)])
    return program


def golden_file(folder: Path) -> Path:
    """The golden frames as (32-bit length, bytes) records, for C programs."""
    path = folder / "golden.bin"
    path.write_bytes(b"".join(struct.pack("=I", len(s.data)) + s.data for s in samples()))
    return path


def run(command: list[str], timeout: float) -> None:
    """Run a sanitized program; an error of its own or of a sanitizer is an AssertionError."""
    env = dict(os.environ, ASAN_OPTIONS="detect_leaks=1", UBSAN_OPTIONS="print_stacktrace=1")
    done = _execute(command, env, timeout)
    if "LeakSanitizer has encountered a fatal error" in done.stderr:
        # Some containers forbid what looking for leaks needs; all else is still checked.
        env["ASAN_OPTIONS"] = "detect_leaks=0"
        done = _execute(command, env, timeout)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"


def _execute(
    command: list[str], env: dict[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=timeout, check=False
    )


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stderr}"
