"""How much of csrc runs: ``python -m tests.csrc.coverage`` prints a table.

The corpus is the seeds of every fuzz target (captured frames and test vectors) and a fixed number
of mutations of them; the unit tests in C add what needs a failing malloc.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tests.csrc.build import (
    CSRC,
    build_program,
    compile_library,
    compile_link,
    golden_file,
    run,
    run_tool,
)
from tests.csrc.suites import SUITES
from tests.fuzz.corpus import TARGETS
from tests.fuzz.engine import HERE as FUZZ
from tests.fuzz.engine import write_seeds

HERE = Path(__file__).parent
CHECKS = ("--coverage", "-O0")
CC = ["gcc"]  # gcov reads what gcc wrote
MUTATIONS = 20_000
PARSER_CORE = (
    "jet_parser.c",
    "jet_header.c",
    "jet_jsack.c",
    "jet_puback.c",
    "jet_scan.h",
    "jet_stored.c",
)


@dataclass
class Covered:
    """One file: each line and each way out of a branch, with how often it was taken."""

    lines: dict[int, int] = field(default_factory=dict)
    branches: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, line: dict) -> None:
        number = line["line_number"]
        self.lines[number] = self.lines.get(number, 0) + line["count"]
        for at, branch in enumerate(line["branches"]):
            key = (number, at)
            self.branches[key] = self.branches.get(key, 0) + branch["count"]

    @property
    def missing(self) -> list[int]:
        """Lines that never ran, or with a way out that was never taken."""
        never = {number for number, count in self.lines.items() if not count}
        return sorted(never | {number for (number, _), count in self.branches.items() if not count})


def corpus(folder: Path) -> dict[str, Covered]:
    """Run every fuzz target on its seeds and some mutations."""
    library = compile_library(folder, CHECKS, cc=CC)
    for target in TARGETS:
        sources = [FUZZ / "targets" / f"{target}.c", FUZZ / "driver.c"]
        program = build_program(folder, target, sources, library, CHECKS, cc=CC)
        run([str(program), "1", str(MUTATIONS), str(write_seeds(target, folder))], timeout=120)
    return read(folder, library)


def everything(
    folder: Path, suites: tuple[str, ...]
) -> tuple[dict[str, Covered], dict[str, Covered]]:
    """What the corpus covers, and what it covers together with the unit tests in C."""
    by_corpus = corpus(folder)
    units = folder / "units"
    units.mkdir()
    renamed = [f"-D{name}=test_{name}" for name in ("malloc", "calloc", "realloc")]
    library = compile_library(units, CHECKS, renamed, CC)
    # The suites of csrc/link are in the same program; that library is not what is measured here.
    link = compile_link(units, flags=renamed, checks=())
    sources = sorted(HERE.glob("*.c"))
    program = build_program(units, "units", sources, [*library, *link], CHECKS, ["-pthread"], cc=CC)
    for suite in suites:
        run([str(program), suite], timeout=60)
    run([str(program), "golden", str(golden_file(units))], timeout=60)
    return by_corpus, merged(by_corpus, read(units, library))


def merged(one: dict[str, Covered], other: dict[str, Covered]) -> dict[str, Covered]:
    found: dict[str, Covered] = {}
    for part in (one, other):
        for name, covered in part.items():
            into = found.setdefault(name, Covered())
            for number, count in covered.lines.items():
                into.lines[number] = into.lines.get(number, 0) + count
            for key, count in covered.branches.items():
                into.branches[key] = into.branches.get(key, 0) + count
    return found


def read(folder: Path, objects: list[Path]) -> dict[str, Covered]:
    """What the programs left behind, by file of csrc (headers with inline functions too)."""
    run_tool(["gcov", "--json-format", "-b", *(path.name for path in objects)], folder)
    found: dict[str, Covered] = {}
    for path in sorted(folder.glob("*.gcov.json.gz")):
        for file in json.loads(gzip.decompress(path.read_bytes()))["files"]:
            if Path(file["file"]).resolve().parent == CSRC:
                covered = found.setdefault(Path(file["file"]).name, Covered())
                for line in file["lines"]:
                    covered.add(line)
    return found


def share(covered: list[Covered]) -> tuple[float, float]:
    """Percent of lines and of branches."""
    lines = [count for one in covered for count in one.lines.values()]
    branches = [count for one in covered for count in one.branches.values()]
    return _percent(lines), _percent(branches)


def _percent(counts: list[int]) -> float:
    return 100 * sum(map(bool, counts)) / len(counts) if counts else 100.0


def table(found: dict[str, Covered]) -> str:
    """One line for each file, and which of its lines are not, or not wholly, covered."""
    rows = []
    for name, covered in sorted(found.items()):
        lines, branches = share([covered])
        missing = ",".join(map(str, covered.missing))
        rows.append(f"{name:16} {lines:6.1f} % lines {branches:6.1f} % branches  {missing}")
    return "\n".join(rows)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        found, all_found = everything(Path(folder), SUITES)
    for what, covered in (("by the corpus", found), ("with the unit tests", all_found)):
        print(f"{what}\n{table(covered)}")
        lines, branches = share(list(covered.values()))
        print(f"all: {lines:.1f} % of lines, {branches:.1f} % of branches")
    lines, branches = share([found[name] for name in PARSER_CORE])
    print(f"parser core by the corpus: {lines:.1f} % of lines, {branches:.1f} % of branches")
    return 0


if __name__ == "__main__":
    sys.exit(main())
