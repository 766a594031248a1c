#!/usr/bin/env bash
# One federation on this machine; sets the machine up on first use. ./run.sh --help says more.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
"$root/scripts/setup.sh"
exec "$root/.venv/bin/python" -P -m fl_dp.cli "$@"
