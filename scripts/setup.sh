#!/usr/bin/env bash
# Makes .venv hold this project, editable, and what it runs with, in the versions of requirements.txt.
# Returns at once when it does.
#
#     scripts/setup.sh [--dev] [--cpu | --cuda]
#
# --dev adds all extras and developers' tools. --cuda takes PyTorch's build on PyPI, --cpu the one of PyTorch's
# own index, which is tried, too, if neither is said and no NVIDIA driver is found. Choices stay.
#
# .venv/.complete is written last and holds what the installation was made from, .venv/.words the choices;
# .venv/.unfinished stands while pip works. A .venv that was left unfinished, moved, has PyTorch's other
# build, or does not start is made anew.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="$root/.venv"

digest() {
    local sum="sha256sum"
    command -v sha256sum >/dev/null || sum="shasum -a 256"
    { echo "$root"; cat "$root/requirements.txt" "$root/pyproject.toml" "$venv/pyvenv.cfg" 2>/dev/null; } | $sum
}

# What .venv was made with, and over it the words of this call.
choose() {
    local word
    kept="$(cat "$venv/.words" 2>/dev/null || true)" build="" dev=""
    for word in $kept "$@"; do
        case "$word" in
            --cpu | --cuda) build="$word" ;;
            --dev) dev=" --dev" ;;
            *) echo "error: $word: scripts/setup.sh knows --dev, --cpu and --cuda." >&2; exit 2 ;;
        esac
    done
}

complete() {
    choose "$@"
    [[ "$build$dev" == "$kept" && -f "$venv/.complete" && "$(<"$venv/.complete")" == "$root $(digest)" ]]
}

usable() {
    [[ "${kept:---cuda}" == *"$build"* ]] || return 1  # one without .words is older than these
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

make_venv() {
    local python
    python="$(find_python)"
    rm -rf "$venv"
    if ! "$python" -m venv "$venv"; then
        rm -rf "$venv"
        echo "error: $python cannot make virtual environments; install its venv module (python3-venv)." >&2
        return 1
    fi
}

# What pip downloads is progress; what is there already, or meant for another machine, is not.
# Compiling all modules is a third of the work (50 of 159 s); Python compiles those that it imports.
pip_install() {
    "$venv/bin/python" -m pip install --no-compile -c "$root/requirements.txt" "$@" |
        { grep --line-buffered -vE '^(Requirement already satisfied|Ignoring|Looking in) ?' || true; } >&2
}

cpu_build() { pip_install --no-deps -r "$root/requirements-cpu.txt" "$@"; }

has_driver() { [[ -e /proc/driver/nvidia/version ]] || command -v nvidia-smi >/dev/null; }

choose_build() {
    build="--cuda"
    if has_driver; then return; fi
    echo "no NVIDIA driver: asking PyTorch's own index for its build for CPUs" >&2
    if cpu_build --timeout 10 --retries 0 2>/dev/null; then
        build="--cpu"
    else
        echo "it gives none: taking PyPI's build, with CUDA" >&2
    fi
}

dev_tools() {
    "$venv/bin/python" - "$root/pyproject.toml" <<'END'
import sys, tomllib
with open(sys.argv[1], "rb") as file:
    print(*tomllib.load(file)["dependency-groups"]["dev"], sep="\n")
END
}

install() {
    if usable; then
        build="${build:---cuda}"
        echo "bringing .venv up to date: requirements.txt, pyproject.toml, $build$dev" >&2
        touch "$venv/.unfinished"
    else
        echo "first use: making .venv; with CUDA 6 GB and some minutes (docs/installing.md)" >&2
        make_venv
        touch "$venv/.unfinished"
        [[ -n "$build" ]] || choose_build
    fi
    if [[ "$build" == --cpu ]] && ! cpu_build; then
        echo "error: no PyTorch from the index in requirements-cpu.txt; with --cuda PyPI's is taken." >&2
        return 1
    fi
    pip_install -e "$root[report,vision]"
    if [[ -n "$dev" ]]; then dev_tools | pip_install -r /dev/stdin; fi
    echo "$build$dev" >"$venv/.words"
    rm "$venv/.unfinished"
    echo "$root $(digest)" >"$venv/.complete"
    echo "set up. To call fl-dp: source .venv/bin/activate, or .venv/bin/fl-dp" >&2
}

if ! complete "$@"; then
    # One at a time; the second then finds the work done. The lock ends with this process.
    exec 9<"$root"
    if command -v flock >/dev/null; then flock 9; fi
    if ! complete "$@"; then
        export PIP_DISABLE_PIP_VERSION_CHECK=1
        export PIP_PROGRESS_BAR=off  # in a log each bar is thousands of characters
        install
    fi
fi
