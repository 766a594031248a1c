"""The README in a kit's folder."""

from pathlib import Path

from fl_dp.durable_files import write_whole

_ENDS = """
The server and the client say so from 30 days before a certificate or the roster ends.
More: docs/deployment.md of fl_dp.
"""

_SITE = """This is the kit of the site {name}.

Start the client:

    fl-dp client --kit . --data npz:FILE

Secret:      site.key. Whoever has it is this site. It never leaves this machine, by mail or otherwise.
Not secret:  {name}.join.json (sent to who provisions), roster.json, trusted.json.

When the roster ends, or a site joins or leaves: who provisions sends a new roster.json. Take it by

    fl-dp accept PATH/TO/roster.json --kit .

A running client goes on with it by itself. One that ended because its roster was over is started again.
If site.key is stolen or lost: say so to who provisions, at once, and make a new kit by fl-dp join-request.
"""

_SERVER = """This is the kit of the server of the federation {federation}.

Start the server:

    fl-dp server --kit . --config FILE.toml

It was killed? Go on:  fl-dp server --kit . --resume DIR

Secret:      server.key, tls.key. Whoever has them can stand in for the server.
Not secret:  tls.crt, roster.json, trusted.json.

server.key is made once. What fl-dp provision makes later may come without it: the server keeps its own.

A new roster alone is taken by

    fl-dp accept PATH/TO/roster.json --kit .

and a running server goes on with it by itself. When the certificate ends: who provisions runs fl-dp provision
again; copy tls.key and tls.crt here, and accept the roster. A running server takes them, too. Only another
server.key, by fl-dp provision --new-server-key, needs a new start.
"""


def site_text(name: str) -> str:
    return _SITE.format(name=name) + _ENDS


def server_text(federation: str) -> str:
    return _SERVER.format(federation=federation) + _ENDS


def write_text(path: Path, text: str) -> None:
    write_whole(path, lambda file: file.write(text.encode()), secret=True)
