"""The way between a server and its sites: Flower's Fleet API, with a door before it that only sites pass.

    site:    site_link.py ─► signed_request.py ─► TLS ─► door.py ─► Flower's handlers and state
                                                  listener.py and places.py: who may hold a connection
    server:  link_grid.py, a Flower Grid over that state; replies come by upload.py

What Flower's own SuperLink serves besides, to start runs, to run a run's code and to hand out its tokens, is
not served at all (docs/decisions/0011).
"""
