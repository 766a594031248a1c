"""The connection between a server and its sites: Flower's Fleet API, behind a door that admits only sites.

    site:    site_link.py ─► signed_request.py ─► TLS ─► door.py ─► Flower's handlers and state
                                                  listener.py and places.py: who may hold a connection
    server:  link_grid.py, a Flower Grid over that state; replies come by upload.py

The other APIs of Flower's SuperLink, which start runs, run their code and hand out tokens, are not served at
all (docs/decisions/0011).
"""
