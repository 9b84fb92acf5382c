"""Compile csrc and csrc/link for tests: with sanitizers, with coverage, as a shared library."""

from __future__ import annotations

import os
import shlex
import struct
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.wire.golden import samples

ROOT = Path(__file__).parents[2]
CSRC = ROOT / "csrc"
LINK = CSRC / "link"
MEMORY = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
THREADS = ("-fsanitize=thread",)
CANNOT_LOOK = "LeakSanitizer has encountered a fatal error"
FLAGS = ("-std=c11", "-g", "-O1", "-fno-omit-frame-pointer", "-Wall", "-Wextra", "-Werror")


def compiler() -> list[str]:
    return shlex.split(os.environ.get("CC", "gcc"))


def build(
    folder: Path,
    name: str,
    sources: Iterable[Path],
    library_flags: Sequence[str] = (),
    checks: Sequence[str] = MEMORY,
) -> Path:
    """Compile `sources` and both libraries (with `library_flags` too) into `folder`/`name`."""
    objects = compile_library(folder, checks, library_flags)
    objects += compile_link(folder, checks, library_flags)
    return build_program(folder, name, sources, objects, checks, ["-pthread"])


def compile_library(
    folder: Path,
    checks: Sequence[str] = MEMORY,
    flags: Sequence[str] = (),
    cc: Sequence[str] | None = None,
) -> list[Path]:
    """Compile csrc; `checks` are a sanitizer's flags or the like, for the linker too."""
    return _compile(folder, "jet", sorted(CSRC.glob("*.c")), [*checks, *flags], cc)


def compile_link(
    folder: Path, checks: Sequence[str] = MEMORY, flags: Sequence[str] = ()
) -> list[Path]:
    """Compile csrc/link, the library of queues and locks over csrc."""
    return _compile(folder, "link", sorted(LINK.glob("*.c")), [*checks, *flags, f"-I{CSRC}"])


def build_program(
    folder: Path,
    name: str,
    sources: Iterable[Path],
    library: Sequence[Path],
    checks: Sequence[str] = MEMORY,
    link: Sequence[str] = (),
    cc: Sequence[str] | None = None,
) -> Path:
    """Compile `sources` and link them with the compiled library into `folder`/`name`."""
    include = (f"-I{CSRC}", f"-I{LINK}", f"-I{ROOT / 'tests' / 'fuzz'}")
    objects = _compile(folder, name, list(sources), [*checks, *include], cc)
    program = folder / name
    run_tool(
        [*(cc or compiler()), *checks, *map(str, [*objects, *library]), *link, "-o", str(program)]
    )
    return program


def _compile(
    folder: Path,
    name: str,
    sources: list[Path],
    flags: Sequence[str],
    cc: Sequence[str] | None = None,
) -> list[Path]:
    def compile_one(source: Path) -> Path:
        target = folder / f"{name}-{source.stem}.o"
        command = [*(cc or compiler()), *FLAGS, *flags, "-c", str(source), "-o", str(target)]
        run_tool(command, folder)
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compile_one, sources))


def records(data: Iterable[bytes]) -> bytes:
    """(32-bit length, bytes) records, as the C programs read them."""
    return b"".join(struct.pack("=I", len(one)) + one for one in data)


def golden_file(folder: Path) -> Path:
    """The captured frames, one record each."""
    path = folder / "golden.bin"
    path.write_bytes(records(sample.data for sample in samples()))
    return path


def run(command: list[str], timeout: float) -> str:
    """Run a sanitized program and return what it said on stdout; an error of its own or of a
    sanitizer is an AssertionError."""
    env = clean_environment()
    env.update(ASAN_OPTIONS="detect_leaks=1", UBSAN_OPTIONS="print_stacktrace=1")
    done = execute(command, env, timeout)
    if CANNOT_LOOK in done.stderr:
        # Some containers forbid what looking for leaks needs, and a test of test_csrc.py says so
        # where it is skipped; all else is still checked.
        env["ASAN_OPTIONS"] = "detect_leaks=0"
        done = execute(command, env, timeout)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def clean_environment() -> dict[str, str]:
    """This process's environment without a sanitizer that was preloaded into it."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def execute(
    command: list[str], env: dict[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=env,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
    )


def run_tool(command: list[str], cwd: Path | None = None) -> str:
    """Run a compiler or another tool of the build, which must not fail; return its stdout."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=cwd, env=clean_environment()
    )
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout
