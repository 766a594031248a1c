"""A federation's startup kits: keys, and a roster, signed by the authority, that says whose key is whose.

A site makes its own key; no other file of its kit is secret. The authority's keys sign rosters and the
server's certificate. They stay offline and are in no kit.
"""
