"""Build of the C library and the extension modules. A failed compilation fails the build.

Environment: JETSYNC_SANITIZE=1 (address and undefined-behaviour sanitizers), JETSYNC_COVERAGE=1
(gcov), JETSYNC_DEBUG=1 (no optimisation, locks are asserted).
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

ROOT = Path(__file__).parent
CSRC = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "csrc").rglob("*.c"))
HEADERS = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "csrc").rglob("*.h"))
INCLUDE = ["csrc", "csrc/link"]
PXDS = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "jetsync/_core").glob("*.pxd"))
MODULES = sorted(p.stem for p in (ROOT / "jetsync/_core").glob("*.pyx"))

if sys.platform == "win32":
    sys.exit("jetsync builds on Linux and macOS; on Windows use WSL")
if not MODULES or not CSRC:
    sys.exit("the sources of the compiled core are missing: this source distribution is incomplete")


def enabled(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


compile_args = [
    "-std=c11",
    "-fvisibility=hidden",
    "-fstack-protector-strong",
    "-Wall",
    "-Wformat",
    "-Wformat-security",
    "-Wno-unused-function",
    "-Wno-deprecated-declarations",
]
link_args: list[str] = []

if enabled("JETSYNC_DEBUG") or enabled("JETSYNC_SANITIZE"):
    compile_args += ["-O1", "-g", "-fno-omit-frame-pointer", "-U_FORTIFY_SOURCE", "-DLINK_DEBUG"]
else:
    compile_args += ["-O2", "-g0", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3", "-Wno-cpp"]
if enabled("JETSYNC_SANITIZE"):
    compile_args += ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    link_args += ["-fsanitize=address,undefined"]
if enabled("JETSYNC_COVERAGE"):
    compile_args += ["--coverage"]
    link_args += ["--coverage"]
if sys.platform == "linux":
    link_args += ["-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"]
    if platform.machine() == "x86_64":
        compile_args += ["-fcf-protection=full"]

setup(
    libraries=[
        (
            "jet",
            {
                "sources": CSRC,
                "include_dirs": INCLUDE,
                "cflags": [*compile_args, "-fPIC", "-Wextra", "-Werror"],
                # A changed header rebuilds the library.
                "obj_deps": {"": HEADERS},
            },
        )
    ],
    ext_modules=cythonize(
        [
            Extension(
                f"jetsync._core.{name}",
                sources=[f"jetsync/_core/{name}.pyx"],
                include_dirs=INCLUDE,
                libraries=["jet"],
                depends=[*CSRC, *HEADERS, *PXDS],
                extra_compile_args=compile_args,
                extra_link_args=link_args,
            )
            for name in MODULES
        ],
        compiler_directives={
            "language_level": "3",
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "embedsignature": True,
            "binding": True,
        },
        show_all_warnings=False,
    ),
)
