"""Build of the C library and the extension modules. A failed compilation fails the build.

Environment, each switched on by 1:

- JETSYNC_DEBUG: no optimisation, debug information, and the checks that Cython can add to its code
  (bounds of arrays and memoryviews, and that they were ever set); locks are asserted to be held
  where they must be.
- JETSYNC_SANITIZE: the address and undefined-behaviour sanitizers, with the same checks, not
  optimised either.
- JETSYNC_COVERAGE: gcov.
- JETSYNC_QUICK: optimised less, compiled in half the time; for checks of all but speed.
- JETSYNC_URL and JETSYNC_DOCS_URL (addresses, not 1): where the repository and the documentation
  are, for the metadata. The release workflow sets them to its own.
- CYTHON_CACHE_DIR (a folder, not 1): what Cython has generated once is taken from there again.
- JETSYNC_WERROR: warnings are errors. For development and continuous integration: a compiler that
  is newer than this release may warn of more, and a user's installation must not fail for that.
"""

from __future__ import annotations

import gzip
import json
import os
import platform
import sys
import tarfile
import time
from pathlib import Path

import Cython
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.sdist import sdist

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


checked = enabled("JETSYNC_DEBUG") or enabled("JETSYNC_SANITIZE")

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

if checked:
    # What a sanitizer tells needs lines only. To optimise its checks takes four times as long.
    symbols = "-g1" if enabled("JETSYNC_SANITIZE") else "-g"
    compile_args += ["-O0", symbols, "-fno-omit-frame-pointer", "-U_FORTIFY_SOURCE", "-DLINK_DEBUG"]
else:
    optimised = "-O1" if enabled("JETSYNC_QUICK") else "-O2"
    compile_args += [optimised, "-g0", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3", "-Wno-cpp"]
if enabled("JETSYNC_SANITIZE"):
    compile_args += ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    link_args += ["-fsanitize=address,undefined"]
if enabled("JETSYNC_COVERAGE"):
    compile_args += ["--coverage"]
    link_args += ["--coverage"]
if enabled("JETSYNC_WERROR"):
    compile_args += ["-Werror"]
if sys.platform == "linux":
    compile_args += ["-fstack-clash-protection"]
    link_args += ["-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"]
    if platform.machine() == "x86_64":
        compile_args += ["-fcf-protection=full"]
        # The linker takes the mark of shadow stacks away when the system's own start-up objects
        # lack it, though they do nothing that a shadow stack forbids.
        link_args += ["-Wl,-z,shstk"]
    elif platform.machine() == "aarch64":
        compile_args += ["-mbranch-protection=standard"]


def project_urls() -> dict[str, str]:
    """The addresses in the metadata, by label: those that a release is made from."""
    urls = {}
    if url := os.environ.get("JETSYNC_URL", "").rstrip("/"):
        urls["Source"] = url
        urls["Issues"] = f"{url}/issues"
        urls["Changelog"] = f"{url}/blob/main/CHANGELOG.md"
    if docs := os.environ.get("JETSYNC_DOCS_URL"):
        urls["Documentation"] = docs
    return urls


class SourceDistribution(sdist):
    """The same bytes from the same sources on every machine: names in order, no owner, the usual
    permissions, and ``SOURCE_DATE_EPOCH`` (default: now) as the time of every file."""

    def make_archive(self, base_name: str, format: str, *args: object, **options: object) -> str:
        if format != "gztar":
            return str(super().make_archive(base_name, format, *args, **options))
        seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())

        def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = seconds
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            return entry

        root = str(options.get("base_dir") or os.path.basename(base_name))
        with (
            open(f"{base_name}.tar.gz", "wb") as file,
            gzip.GzipFile("", "wb", mtime=seconds, fileobj=file) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            archive.add(root, filter=plain)  # in the order of the names
        return f"{base_name}.tar.gz"


class Wheel(bdist_wheel):
    """A wheel with its bill of materials in ``.dist-info/sboms`` (PEP 770, CycloneDX 1.6).

    It names what an auditor cannot see from the metadata: that the C library is jetsync's own, and
    which Cython generated the rest of the compiled code.
    """

    def write_wheelfile(self, wheelfile_base: str, *args: object, **options: object) -> None:
        super().write_wheelfile(wheelfile_base, *args, **options)
        folder = Path(wheelfile_base) / "sboms"
        folder.mkdir(exist_ok=True)
        version = self.distribution.get_version()
        text = json.dumps(bill_of_materials(version), indent=2)
        (folder / "jetsync.cdx.json").write_text(text + "\n")


def component(kind: str, name: str, version: str, license: str) -> dict[str, object]:
    return {
        "type": kind,
        "bom-ref": f"pkg:pypi/{name.lower()}@{version}",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name.lower()}@{version}",
        "licenses": [{"license": {"id": license}}],
    }


def bill_of_materials(version: str) -> dict[str, object]:
    jetsync = component("library", "jetsync", version, "Apache-2.0")
    cython = component("application", "Cython", Cython.__version__, "Apache-2.0")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": jetsync, "tools": {"components": [cython]}},
        "components": [],
        "dependencies": [{"ref": jetsync["bom-ref"], "dependsOn": []}],
    }


setup(
    cmdclass={"bdist_wheel": Wheel, "sdist": SourceDistribution},
    project_urls=project_urls(),
    libraries=[
        (
            "jet",
            {
                "sources": CSRC,
                "include_dirs": INCLUDE,
                "cflags": [*compile_args, "-fPIC", "-Wextra"],
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
        # Cython goes by the age of a file, not by the directives it was made with.
        build_dir="build/cython-checked" if checked else "build/cython",
        cache=bool(os.environ.get("CYTHON_CACHE_DIR")),
        compiler_directives={
            "language_level": "3",
            "boundscheck": checked,
            "initializedcheck": checked,
            "wraparound": False,
            "cdivision": True,
            "embedsignature": True,
            "binding": True,
            # What Cython makes for pickling takes any tuple for a state: a wrong one crashes it.
            "auto_pickle": False,
        },
        show_all_warnings=False,
    ),
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
)
