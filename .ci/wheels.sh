#!/usr/bin/env bash
# Wheels as they are published, for each Python that the package claims and this machine has: built
# from the source distribution, repaired and checked, installed from that file alone into a new
# environment without a compiler or an index, and tested there with what cibuildwheel runs
# (`test-command` in pyproject.toml). The wheels are left in dist/.
#
#   bash .ci/wheels.sh            all of them, the environment's own Python built twice and compared
#   bash .ci/wheels.sh --others   all but the environment's own Python, which `make test` has tested;
#                                 for a check only: these wheels are compiled in half the time
#
# In two steps with a second option: --build makes and installs them, and counts the instructions that
# the quick ones need (see benchmarks/watch; RECORD=1 records them); --test tests what that left.
#
# Looks for python3.X on PATH and below ~/.pyenv. Needs what `.ci/bootstrap.sh dev` leaves in .venv.
set -euo pipefail

cd "$(dirname "$0")/.."
root=$PWD
venv=${VENV:-.venv}
claimed="10 11 12 13" # 3.X, as in the classifiers
folder=$root/build/wheels

say() { printf 'jetsync: %s\n' "$*" >&2; }

usable() {
    "$1" -c 'import ensurepip, os, ssl, sysconfig, venv
header = os.path.join(sysconfig.get_path("include"), "Python.h")
raise SystemExit(not os.path.isfile(header))' >/dev/null 2>&1
}

find_minor() {
    local candidate
    for candidate in "$(command -v "python3.$1" || true)" "$HOME"/.pyenv/versions/"3.$1".*/bin/python; do
        if [ -x "$candidate" ] && usable "$candidate"; then
            echo "$candidate"
            return
        fi
    done
}

setting() { # of [tool.cibuildwheel] in pyproject.toml
    "$venv/bin/python" - "$1" <<'PY'
import sys, tomllib
with open("pyproject.toml", "rb") as file:
    value = tomllib.load(file)["tool"]["cibuildwheel"][sys.argv[1]]
print(value if isinstance(value, str) else "\n".join(value))
PY
}

say_failed() { say "$*"; return 1; }

# Every file has the time of the last commit, so that the same source makes the same wheel.
build() { # with one Python, from the source distribution, into a folder
    SOURCE_DATE_EPOCH=$epoch JETSYNC_WERROR=1 "$1" -m pip --quiet --disable-pip-version-check \
        wheel --no-deps --no-build-isolation --no-cache-dir --wheel-dir "$2" "$sdist"
}

# A wheel that is built here runs where glibc is as new as here; the ones that are published are
# built by cibuildwheel in the images of manylinux_2_28 and musllinux_1_2.
repair() { # a wheel, so that its name says which systems it runs on; Linux only
    if [ "$(uname)" != Linux ]; then cp "$1" "$2"; return; fi
    PATH=$PWD/$venv/bin:$PATH "$venv/bin/python" -m auditwheel repair --strip --wheel-dir "$2" "$1"
    case $(ls "$2") in
        *manylinux_*) ;;
        *) say_failed "no manylinux policy fits: $(ls "$2")" ;;
    esac
}

make_wheel() { # of one Python, and install it; the output goes to a log
    local python=$1 place=$2 twice=$3 wheel
    set -e
    rm -rf "$place"
    mkdir -p "$place/elsewhere" "$place/built" "$place/repaired"
    "$python" -m venv "$place/venv"
    local pip=("$place/venv/bin/python" -m pip --quiet --disable-pip-version-check --no-input)
    local wanted=(-r "$venv/.stamps/build-requirements.txt" -r "$folder/requirements.txt")
    "${pip[@]}" install --no-compile "${wanted[@]}" --constraint .ci/constraints.txt ||
        "${pip[@]}" install --no-compile "${wanted[@]}" # the newest tools do not run on every Python
    build "$place/venv/bin/python" "$place/built"
    if [ -n "$twice" ]; then
        build "$place/venv/bin/python" "$place/again"
        cmp "$place"/built/*.whl "$place"/again/*.whl
    fi
    repair "$(echo "$place"/built/*.whl)" "$place/repaired"
    wheel=$(echo "$place"/repaired/*.whl)
    "$venv/bin/python" -m twine check --strict "$wheel"
    # The top level also has pyspark_jetsync.py: Spark finds data sources by that name.
    "$venv/bin/check-wheel-contents" --ignore W009 "$wheel"
    CC=/bin/false "${pip[@]}" install --no-index --no-deps "$wheel"
    cp "$wheel" "$root/dist/"
    if [ -n "${JETSYNC_QUICK:-}" ]; then count_instructions "$place"; fi
    echo built
}

count_instructions() { # per message, of the wheel in a place, against the record
    local installed
    cd "$1/elsewhere"
    installed=$("$1/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
    PYTHONPATH=$installed:$root "$1/venv/bin/python" -m benchmarks.watch.check ${RECORD:+--record}
}

test_wheel() { # that is installed in a place
    set -e
    cd "$1/elsewhere" # nothing of the checkout beside the tests is to be found by chance
    PATH=$1/venv/bin:$PATH bash -c "${command//\{project\}/$root}"
}

each() { # do one step for every Python beside each other, and say how each ended
    local step=$1 minor pid code=0
    local -a pids=()
    for minor in ${pythons[@]+"${!pythons[@]}"}; do
        if [ "$step" = build ]; then
            local twice=
            if [ "$minor" = "$current" ]; then twice=1; fi
            (make_wheel "${pythons[$minor]}" "$folder/3.$minor" "$twice") \
                >"$folder/3.$minor.$step.log" 2>&1 &
        else
            (test_wheel "$folder/3.$minor") >"$folder/3.$minor.$step.log" 2>&1 &
        fi
        pids[$minor]=$!
    done
    for minor in ${pids[@]+"${!pids[@]}"}; do
        if wait "${pids[$minor]}"; then
            say "Python 3.$minor: $(tail -n 1 "$folder/3.$minor.$step.log")"
        else
            code=1
            say "Python 3.$minor failed:"
            tail -n 60 "$folder/3.$minor.$step.log" >&2
        fi
    done
    return $code
}

case ${1:-} in
    "") own=1 ;;
    --others) own='' && export JETSYNC_QUICK=1 ;;
    *) say_failed "usage: bash .ci/wheels.sh [--others [--build|--test]]" ;;
esac
steps=(build test)
if [ -n "${2:-}" ]; then steps=("${2#--}"); fi
command=$(setting test-command)
current=$("$venv/bin/python" -c 'import sys; print(sys.version_info.minor)')
pythons=()
for minor in $claimed; do
    if [ "$minor" = "$current" ] && [ -z "$own" ]; then continue; fi
    python=$(find_minor "$minor")
    if [ -z "$python" ]; then
        say "Python 3.$minor is not on this machine: not checked"
        continue
    fi
    pythons[$minor]=$python
done

prepare() { # what all builds need
    mkdir -p "$folder" dist
    "$venv/bin/python" -m pip --quiet --disable-pip-version-check install --group release \
        --constraint .ci/constraints.txt
    epoch=$(git log -1 --format=%ct 2>/dev/null || date +%s)
    sdist=$(ls build/dist/jetsync-*.tar.gz 2>/dev/null || true) # of bootstrap.sh, in CI
    if [ -z "${JETSYNC_CI:-}" ] || [ -z "$sdist" ]; then
        rm -rf "$folder/sdist"
        mkdir -p "$folder/sdist"
        "$venv/bin/python" -c "from setuptools import build_meta; build_meta.build_sdist('$folder/sdist')" \
            >/dev/null
        sdist=$(echo "$folder"/sdist/*.tar.gz)
    fi
    cp "$sdist" dist/
    setting test-requires >"$folder/requirements.txt"
}

for step in "${steps[@]}"; do
    if [ "$step" = build ]; then prepare; fi
    each "$step"
done
