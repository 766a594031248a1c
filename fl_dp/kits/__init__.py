"""A federation's startup kits: whose key is whose, said by a roster that its authority has signed.

A site makes its own key, and no other file of its kit is secret. The authority's keys stay offline: they sign
rosters and the server's certificate, and are in no kit.
"""
