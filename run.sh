#!/usr/bin/env bash
# One federation on this machine; sets the machine up on first use. ./run.sh --help says more.
# --cuda and --cpu choose PyTorch's build for .venv (scripts/setup.sh).
# FL_DP_PYTHON names the Python of an environment of your own, used in place of .venv.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
python="${FL_DP_PYTHON:-$root/.venv/bin/python}"
if [[ -n "${FL_DP_PYTHON:-}" ]]; then
    command -v "$python" >/dev/null || { echo "error: FL_DP_PYTHON = $python: no such program." >&2; exit 2; }
    "$python" "$root/scripts/own_python.py"
else
    build=""
    for word in "$@"; do
        shift
        case "$word" in --cpu | --cuda) build="$word" ;; *) set -- "$@" "$word" ;; esac
    done
    "$root/scripts/setup.sh" ${build:+"$build"}
fi
exec "$python" -P -m fl_dp.cli.run "$@"
