#!/usr/bin/env bash
# One federation on this machine; sets the machine up on first use. ./run.sh --help says more.
# FL_DP_PYTHON names the Python of an environment of your own, used in place of .venv.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
python="${FL_DP_PYTHON:-$root/.venv/bin/python}"
if [[ -n "${FL_DP_PYTHON:-}" ]]; then
    command -v "$python" >/dev/null || { echo "error: FL_DP_PYTHON = $python: no such program." >&2; exit 2; }
    "$python" "$root/scripts/own_python.py"
else
    "$root/scripts/setup.sh"
fi
exec "$python" -P -m fl_dp.cli.run "$@"
