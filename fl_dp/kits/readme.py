"""The README in a kit's folder."""

_ENDS = """
The server and the client warn you 30 days before a certificate or the roster expires.
More: docs/deployment.md of fl_dp.
"""

_SITE = """This is the kit of the site {name}.

Start the client:

    fl-dp client --kit . --data npz:FILE

Secret:      site.key. Anyone who has it can act as this site. Keep it on this machine; never mail it.
Not secret:  {name}.join.json (sent to the authority), roster.json, trusted.json.

When the roster expires, or a site joins or leaves, the authority sends a new roster.json. Accept it:

    fl-dp accept PATH/TO/roster.json --kit .

A running client then uses it. If the client ended because its roster had expired, start it again.
If site.key is stolen or lost, tell the authority at once, and make a new kit with fl-dp join-request.
"""

_SERVER = """This is the kit of the server of the federation {federation}.

Start the server:

    fl-dp server --kit . --config FILE.toml

Resume a run that was killed:  fl-dp server --kit . --resume DIR

Secret:      server.key, tls.key. Anyone who has them can act as the server.
Not secret:  tls.crt, roster.json, trusted.json.

server.key is made once. A later fl-dp provision may not make it again: the server keeps its own.

Accept a new roster:

    fl-dp accept PATH/TO/roster.json --kit .

A running server then uses it. When the certificate expires, the authority runs fl-dp provision again: copy
tls.key and tls.crt here, and accept the roster. A running server uses these, too. Restart it only for a new
server.key, made by fl-dp provision --new-server-key.
"""


def site_text(name: str) -> str:
    return _SITE.format(name=name) + _ENDS


def server_text(federation: str) -> str:
    return _SERVER.format(federation=federation) + _ENDS
