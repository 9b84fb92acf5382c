"""The flags of the build: hardened everywhere, strict for developers, checked under sanitizers.

What comes of them is read from the built modules by ``test_hardening.py``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

# What setup.py asks for, on a machine of a kind, without building anything.
ASKED = """
import json, platform, runpy, sys
import Cython.Build, setuptools

asked = {}

def cythonize(extensions, **options):
    asked["directives"] = options["compiler_directives"]
    asked["compile"] = [extension.extra_compile_args for extension in extensions]
    asked["link"] = [extension.extra_link_args for extension in extensions]
    return extensions

def setup(**options):
    asked["library"] = options["libraries"][0][1]["cflags"]

Cython.Build.cythonize, setuptools.setup = cythonize, setup
platform.machine = lambda: sys.argv[1]
runpy.run_path("setup.py")
print(json.dumps(asked))
"""
HARDENED = {
    "-fstack-protector-strong",
    "-D_FORTIFY_SOURCE=3",
    "-Wformat-security",
    "-fvisibility=hidden",
}


def asked(machine: str = "x86_64", **environment: str) -> dict[str, Any]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("JETSYNC_")}
    done = subprocess.run(
        [sys.executable, "-c", ASKED, machine],
        cwd=ROOT, env={**own, **environment}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["compile"]
    return found


def flags(found: dict[str, Any]) -> list[set[str]]:
    """Those of each module, and of the C library in them."""
    return [set(each) for each in (*found["compile"], found["library"])]


def test_a_warning_of_a_newer_compiler_fails_no_users_installation():
    assert not any("-Werror" in each for each in flags(asked()))


def test_a_warning_fails_the_build_of_developers_and_of_continuous_integration():
    assert all({"-Werror", "-Wall"} <= each for each in flags(asked(JETSYNC_WERROR="1")))
    bootstrap = (ROOT / ".ci/bootstrap.sh").read_text()
    assert (
        bootstrap.count("JETSYNC_WERROR=$strict ") == bootstrap.count("--no-build-isolation") == 2
    )
    assert 'if [ "$extra" = dev ]; then strict=1; fi' in bootstrap  # `make demo` is a user's
    wheels = (ROOT / ".ci/wheels.sh").read_text()
    assert wheels.count("JETSYNC_WERROR=1 ") == wheels.count("--no-build-isolation") == 1


@pytest.mark.parametrize("kind", ["JETSYNC_SANITIZE", "JETSYNC_DEBUG"])
def test_a_build_that_is_checked_has_the_checks_of_cython_too(kind):
    found, usual = asked(**{kind: "1"}), asked()
    for check in ("boundscheck", "initializedcheck"):
        assert (found["directives"][check], usual["directives"][check]) == (True, False)
    assert all("-DLINK_DEBUG" in each for each in flags(found))  # that locks are held is asserted
    if kind == "JETSYNC_SANITIZE":
        assert all("-fsanitize=address,undefined" in each for each in flags(found))


@pytest.mark.skipif(
    sys.platform != "linux", reason="the flags of Linux; other systems have their own defaults"
)
@pytest.mark.parametrize(
    ("machine", "own"),
    [("x86_64", "-fcf-protection=full"), ("aarch64", "-mbranch-protection=standard")],
)
def test_every_part_of_a_wheel_is_hardened(machine, own):
    found = asked(machine)
    assert all(HARDENED | {"-fstack-clash-protection", own} <= each for each in flags(found))
    wanted = {"-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"}
    assert all(wanted <= set(each) for each in found["link"])


def test_a_change_of_any_source_of_the_core_builds_it_again():
    bootstrap = (ROOT / ".ci/bootstrap.sh").read_text()
    begin = bootstrap.index("sources() {")
    function = bootstrap[begin : bootstrap.index("\n}\n", begin) + 3]
    done = subprocess.run(
        ["bash", "-c", f"constraints=setup.py\n{function}sources"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    seen = {line.split()[-1] for line in done.stdout.splitlines()}
    core = {
        path.relative_to(ROOT).as_posix()
        for folder, pattern in (("csrc", "*.[ch]"), ("jetsync/_core", "*.p[xy][xd]"))
        for path in (ROOT / folder).rglob(pattern)
    }
    assert core <= seen
    assert any(name.endswith(".pxd") for name in core)
