# Sourced by the commands beside it: make_venv run|dev makes or updates .venv, and sets $root and $python.
# A folder with the dev requirements serves `run` as well, so the two never undo each other.

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
python=$root/.venv/bin/python

fail() {
    echo "$1" >&2
    exit 1
}

make_venv() {
    run_stamp=$(cksum <"$root/requirements.txt")
    dev_stamp="$run_stamp $(cksum <"$root/requirements-dev.txt")"
    if venv_is_current "$1"; then return; fi
    if command -v flock >/dev/null; then
        exec 9>"$root/.venv.lock"
        flock 9 # two commands at once: the second finds the work done
    fi
    if ! venv_is_current "$1"; then install_requirements "$1"; fi
    exec 9>&-
}

venv_is_current() {
    "$python" -c '' 2>/dev/null || return 1
    [ "$(cat "$root/.venv/dev.stamp" 2>/dev/null)" = "$dev_stamp" ] && return 0
    [ "$1" = run ] && [ "$(cat "$root/.venv/run.stamp" 2>/dev/null)" = "$run_stamp" ]
}

install_requirements() {
    uv=$(command -v uv || true)
    "$python" -c '' 2>/dev/null || create_venv
    file=requirements.txt stamp=$run_stamp
    if [ "$1" = dev ]; then file=requirements-dev.txt stamp=$dev_stamp; fi
    echo "Installing $file into .venv (once) …" >&2
    if [ -n "$uv" ]; then
        "$uv" pip install --quiet --python "$python" --require-hashes -r "$root/$file" >&2
    else
        "$python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$root/$file" >&2
    fi || fail "The requirements could not be installed; see the lines above."
    echo "$stamp" >"$root/.venv/$1.stamp"
}

create_venv() {
    base=$(find_python) || fail "Pointsman needs Python 3.11 or newer as python3 on the PATH."
    rm -rf "$root/.venv"
    if [ -n "$uv" ]; then
        "$uv" venv --quiet --python "$base" "$root/.venv" || fail "uv could not make .venv."
    elif ! "$base" -m venv "$root/.venv" >/dev/null 2>&1; then
        rm -rf "$root/.venv"
        fail "Python's venv module is missing; install it first (Debian, Ubuntu: apt-get install python3-venv)."
    fi
}

find_python() {
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    return 1
}
