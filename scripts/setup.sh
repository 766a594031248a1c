#!/usr/bin/env bash
# Makes .venv hold what requirements.txt says and this project, editable. Returns at once when it does.
#
# .venv/.complete is written last and holds what the installation was made from; .venv/.unfinished
# stands while pip works. A .venv that was left unfinished, moved, or does not start is made anew.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="$root/.venv"

digest() {
    local sum="sha256sum"
    command -v sha256sum >/dev/null || sum="shasum -a 256"
    { echo "$root"; cat "$root/requirements.txt" "$root/pyproject.toml" "$venv/pyvenv.cfg" 2>/dev/null; } | $sum
}

complete() { [[ -f "$venv/.complete" && "$(<"$venv/.complete")" == "$root $(digest)" ]]; }

usable() {
    [[ ! -f "$venv/.unfinished" ]] || return 1
    [[ ! -f "$venv/.complete" || "$(<"$venv/.complete")" == "$root "* ]] || return 1
    "$venv/bin/python" -c 'import pip, sys; sys.exit(sys.version_info[:2] not in [(3, 11), (3, 12)])' 2>/dev/null
}

find_python() {
    local name
    for name in python3.12 python3.11 python3; do
        if "$name" -c 'import sys; sys.exit(sys.version_info[:2] not in [(3, 11), (3, 12)])' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    echo "error: Python 3.11 or 3.12 is needed, and none is on PATH; install one and try again." >&2
    return 1
}

# What pip downloads is progress; what is there already, or meant for another machine, is not.
hush() { grep --line-buffered -vE '^(Requirement already satisfied|Ignoring|Looking in) ?' || true; }

install() {
    if ! usable; then
        local python
        python="$(find_python)"
        echo "first use: making .venv with $python and installing about 7 GB (half of it CUDA; docs/installing.md says how to do without); this takes some minutes" >&2
        rm -rf "$venv"
        if ! "$python" -m venv "$venv"; then
            rm -rf "$venv"
            echo "error: $python cannot make virtual environments; install its venv module (python3-venv)." >&2
            return 1
        fi
    else
        echo "requirements.txt or pyproject.toml changed: bringing .venv up to date" >&2
    fi
    touch "$venv/.unfinished"
    "$venv/bin/python" -m pip install -r "$root/requirements.txt" | hush >&2
    "$venv/bin/python" -m pip install --no-deps -e "$root" | hush >&2
    rm "$venv/.unfinished"
    echo "$root $(digest)" >"$venv/.complete"
    echo "set up. To call fl-dp: source .venv/bin/activate, or .venv/bin/fl-dp" >&2
}

if ! complete; then
    # One at a time; the second then finds the work done. The lock ends with this process.
    exec 9<"$root"
    if command -v flock >/dev/null; then flock 9; fi
    if ! complete; then
        export PIP_DISABLE_PIP_VERSION_CHECK=1
        export PIP_PROGRESS_BAR=off  # in a log each bar is thousands of characters
        install
    fi
fi
