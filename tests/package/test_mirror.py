"""Each room of the library has its folder of tests, and each folder of tests names a room.

A folder has what needs a server and what does not: fixtures start servers only for tests that take
them. What is about several rooms has a folder of its own, listed here with its subject.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
OTHERS = {
    "benchmarks": "the programs of benchmarks/",
    "conformance": "the documents of NATS, each test file named after one",
    "csrc": "the C library of csrc/, under sanitizers too",
    "fuzz": "the C library and the core, with bytes that are drawn at random",
    "harness": "what tests share: servers, links, peers, and tests of these",
    "package": "the package as a whole: structure, public names, distribution, single top modules",
    "reliability": "promises under faults, forks and interrupts",
    "soak": "the long form of all tests, and the page of promises",
    "topologies": "clusters, gateways, leaf nodes and accounts",
    "wire": "the bytes of the protocol: vectors, the oracle, the differential tests",
}


def rooms(folder: Path) -> set[str]:
    """Return the packages right below the library, as their folders of tests are called."""
    return {path.parent.name.removeprefix("_") for path in folder.glob("*/__init__.py")}


def folders(folder: Path) -> set[str]:
    return {path.relative_to(folder).parts[0] for path in folder.rglob("*/test_*.py")} | {
        path.parent.name for path in folder.glob("*/__main__.py")
    }


def test_each_room_has_its_tests_and_each_folder_of_tests_has_its_room():
    found = folders(ROOT / "tests")
    assert rooms(ROOT / "jetsync") - found == set(), "rooms without tests"
    assert found - rooms(ROOT / "jetsync") == set(OTHERS), "folders of tests that name no room"


def test_every_folder_of_tests_says_what_it_is_about():
    """In its ``__init__.py``, which also lets two folders have files of one name."""
    here = ROOT / "tests"
    assert {
        name for name in folders(here) if not (here / name / "__init__.py").stat().st_size
    } == set()


def test_a_room_without_tests_is_found(tmp_path):
    for name in ("_core", "client", "new"):
        (tmp_path / "jetsync" / name).mkdir(parents=True)
        (tmp_path / "jetsync" / name / "__init__.py").touch()
    for name in ("core", "client", "old"):
        (tmp_path / "tests" / name).mkdir(parents=True)
        (tmp_path / "tests" / name / "test_one.py").touch()
    assert rooms(tmp_path / "jetsync") - folders(tmp_path / "tests") == {"new"}
    assert folders(tmp_path / "tests") - rooms(tmp_path / "jetsync") == {"old"}
