#!/usr/bin/env bash
# Plays every part of a federation with kits on one machine, each in a folder of its own.
# Usage: play.sh FOLDER; fl-dp must be on the PATH.
set -euo pipefail

root=$(realpath -m "$1")
port=${2:-9471}
mkdir -p "$root"/{authority,server,north,south}

# Each site makes its own key, and sends a request that holds the public half.
for site in north south; do
    fl-dp join-request "$site" --kit "$root/$site/kit"
    cp "$root/$site/kit/$site.join.json" "$root/authority/"
done

# The authority says who is in the federation, and signs it.
cat > "$root/authority/federation.toml" <<END
federation = "hospitals"
addresses = ["127.0.0.1:$port"]
requests = ["north.join.json", "south.join.json"]
valid-days = 365
END
(cd "$root/authority" && fl-dp provision federation.toml --out made)
mv "$root/authority/made/server" "$root/server/kit"
# By telephone, in earnest:
authority=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["roster"]["authority"])' \
    "$root/authority/made/roster.json")
for site in north south; do
    fl-dp accept "$root/authority/made/roster.json" --kit "$root/$site/kit" --authority "$authority"
done

# Server and sites, which would be three machines.
fl-dp server --kit "$root/server/kit" --set clients=2 --out "$root/server/run" &
for part in 0 1; do
    site=$([ $part = 0 ] && echo north || echo south)
    XDG_STATE_HOME="$root/$site/state" fl-dp client --kit "$root/$site/kit" --data digits --partition $part/2 \
        --ledger "$root/$site/ledger" --save-model "$root/$site/model" --once &
done
wait
echo "each site has the model: $root/north/model, $root/south/model"
