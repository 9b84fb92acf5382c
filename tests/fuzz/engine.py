"""Build fuzz targets and run them: with libFuzzer where there is a clang, else with driver.c."""

from __future__ import annotations

import functools
import os
import re
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path

from tests.csrc.build import (
    MEMORY,
    build_program,
    clean_environment,
    compile_library,
    execute,
    records,
    run,
)
from tests.fuzz.corpus import seeds

HERE = Path(__file__).parent
CLANGS = ("clang", *(f"clang-{version}" for version in range(22, 12, -1)))
LONGEST = 512  # bytes of an input for libFuzzer; longer ones take time and reach no other code
LENGTHS = {  # of the targets that read more than that, or less; a line may have 4096 bytes
    **{"parser": 5000, "columns": 2048, "encode": 1024},
    **{"sift": 400, "queues": 256, "jsack": 256, "utf8": 256, "token": 96},
}
WEIGHTS = {  # of the time; others 1: they take the most inputs all the same
    **{"parser": 6, "columns": 4, "header": 3, "queues": 3, "websocket": 3},
    **{"sift": 2, "digest": 2, "encode": 2, "puback": 2, "utf8": 2},
}
# A target keeps nothing from one input to the next, so what one input has freed needs no place in
# the sanitizer's quarantine for long: 256 MB of it would have each input wait for memory.
ENVIRONMENT = clean_environment() | {
    "ASAN_OPTIONS": "quarantine_size_mb=4",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


@dataclass
class Outcome:
    """One target's run."""

    target: str
    executions: int
    seconds: float
    broken: str = ""  # what a finding looks like, and how to repeat it; empty: none

    @property
    def rate(self) -> float:
        return self.executions / max(self.seconds, 1e-9)


@functools.cache
def libfuzzer() -> str | None:
    """A clang that can build libFuzzer targets, or None."""
    for name in (os.environ.get("JETSYNC_CLANG", ""), *CLANGS):
        if not (name and shutil.which(name)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "empty.c"
            source.write_text(
                "#include <stddef.h>\nint LLVMFuzzerTestOneInput(const void *p, size_t n);\n"
                "int LLVMFuzzerTestOneInput(const void *p, size_t n) { return p == NULL && n; }\n"
            )
            command = [name, "-fsanitize=fuzzer,address", str(source), "-o", f"{folder}/empty"]
            if execute(command, clean_environment(), 60).returncode == 0:
                return name
    return None


def write_seeds(target: str, folder: Path) -> Path:
    """The seeds of a target in one file, as driver.c reads them."""
    path = folder / f"{target}.seeds"
    path.write_bytes(records(seeds(target)))
    return path


class Plain:
    """Targets with the driver for plain compilers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._library = compile_library(folder)

    def build(self, target: str) -> Path:
        sources = [HERE / "targets" / f"{target}.c", HERE / "driver.c"]
        return build_program(self.folder, target, sources, self._library)

    def fuzz(self, target: str, inputs: int, seed: int) -> Outcome:
        """Feed a target its seeds and so many mutations of them, always the same ones."""
        program = self.build(target)
        start = write_seeds(target, self.folder)
        begun = time.monotonic()
        try:
            run([str(program), str(seed), str(inputs), str(start)], timeout=7200)
            broken = ""
        except AssertionError as error:
            broken = f"{target}: {error}"
        return Outcome(target, inputs, time.monotonic() - begun, broken)


class Guided:
    """Targets with libFuzzer: the coverage an input reaches steers what is tried next."""

    CHECKS = (*MEMORY, "-O2")
    GUIDE = ("-fsanitize=fuzzer-no-link",)  # the library alone: not what a target does to check it

    def __init__(self, folder: Path) -> None:
        clang = libfuzzer()
        assert clang is not None
        self.folder = folder
        self._cc = [clang]
        self._library = compile_library(folder, self.CHECKS, self.GUIDE, self._cc)

    def build(self, target: str) -> Path:
        source = HERE / "targets" / f"{target}.c"
        link = ["-fsanitize=fuzzer"]
        return build_program(
            self.folder, target, [source], self._library, self.CHECKS, link, self._cc
        )

    def fuzz(self, target: str, seconds: float, seed: int, corpus: Path | None = None) -> Outcome:
        """Fuzz for so long. With `corpus` worthwhile inputs and findings are kept there."""
        program = self.build(target)
        start = self.folder / f"{target}.seeds"
        start.mkdir()
        longest = LENGTHS.get(target, LONGEST)
        for data in seeds(target, longest):
            (start / sha1(data).hexdigest()).write_bytes(data)
        kept = (corpus or self.folder) / f"{target}.kept"
        kept.mkdir(parents=True, exist_ok=True)
        options = {
            "max_total_time": max(1, round(seconds)),
            "seed": seed,
            "max_len": longest,
            "dict": HERE / "words.dict",
            "artifact_prefix": f"{corpus or self.folder}/{target}-",
            "timeout": 10,
            "rss_limit_mb": 1024,
            "print_final_stats": 1,
        }
        command = [str(program), *(f"-{name}={value}" for name, value in options.items())]
        begun = time.monotonic()
        done = execute([*command, str(kept), str(start)], ENVIRONMENT, seconds + 120)
        executed = re.search(r"number_of_executed_units: (\d+)", done.stderr)
        broken = ""
        if done.returncode or not executed:
            broken = f"{target}: exit {done.returncode}\n{done.stderr[-6000:]}"
        seconds = time.monotonic() - begun
        return Outcome(target, int(executed[1]) if executed else 0, seconds, broken)

    def fuzz_all(
        self, targets: list[str], seconds: float, seed: int, corpus: Path | None = None
    ) -> list[Outcome]:
        """Fuzz several, one on each processor at a time; `seconds` is the time for all."""
        workers = min(os.cpu_count() or 1, len(targets))
        weights = {target: WEIGHTS.get(target, 1) for target in targets}
        unit = seconds * workers / sum(weights.values())
        longest_first = sorted(targets, key=lambda t: -weights[t])
        with ThreadPoolExecutor(workers) as pool:
            return list(
                pool.map(lambda t: self.fuzz(t, unit * weights[t], seed, corpus), longest_first)
            )
