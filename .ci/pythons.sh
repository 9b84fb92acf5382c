#!/usr/bin/env bash
# On every other Python that this machine has and the package claims: build the wheel from the source
# distribution, install it, and run on it what cibuildwheel runs (`test-command` in pyproject.toml).
#
# Looks for python3.X on PATH and below ~/.pyenv. Needs what `.ci/bootstrap.sh dev` leaves in build/dist.
set -euo pipefail

cd "$(dirname "$0")/.."
root=$PWD
venv=${VENV:-.venv}
claimed="10 11 12 13" # 3.X, as in the classifiers
folder=$root/build/pythons

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

check() { # of one Python; its output goes to a log
    local python=$1 place=$2
    set -e
    rm -rf "$place"
    mkdir -p "$place/elsewhere"
    "$python" -m venv "$place/venv"
    local pip=("$place/venv/bin/python" -m pip --quiet --disable-pip-version-check --no-input)
    local wanted=(-r "$venv/.stamps/build-requirements.txt" -r "$folder/requirements.txt")
    "${pip[@]}" install "${wanted[@]}" --constraint .ci/constraints.txt ||
        "${pip[@]}" install "${wanted[@]}" # the newest tools do not run on every Python
    # The source distribution is what a user without a matching wheel builds.
    JETSYNC_WERROR=1 "${pip[@]}" wheel --no-deps --no-build-isolation --no-cache-dir \
        --wheel-dir "$place" "$(ls build/dist/jetsync-*.tar.gz)"
    "${pip[@]}" install --no-deps "$place"/jetsync-*.whl
    cd "$place/elsewhere" # nothing of the checkout beside the tests is to be found by chance
    PATH=$place/venv/bin:$PATH bash -c "${command//\{project\}/$root}"
}

mkdir -p "$folder"
setting test-requires >"$folder/requirements.txt"
command=$(setting test-command)
current=$("$venv/bin/python" -c 'import sys; print(sys.version_info.minor)')
checks=()
for minor in $claimed; do
    if [ "$minor" = "$current" ]; then continue; fi
    python=$(find_minor "$minor")
    if [ -z "$python" ]; then
        say "Python 3.$minor is not on this machine: not checked"
        continue
    fi
    checks+=("$minor")
    (check "$python" "$folder/3.$minor") >"$folder/3.$minor.log" 2>&1 &
    eval "pid_$minor=$!"
done

failed=0
for minor in ${checks[@]+"${checks[@]}"}; do
    pid="pid_$minor"
    if wait "${!pid}"; then
        say "Python 3.$minor: $(tail -n 1 "$folder/3.$minor.log")"
    else
        failed=1
        say "Python 3.$minor failed:"
        tail -n 60 "$folder/3.$minor.log" >&2
    fi
done
exit $failed
