"""The secure sum: a server learns the sum of its members' integers and nothing else about them.

After Bonawitz et al. 2017 (its version against an active server), with one signed agreement over everything
that members must share. Read `terms.py` (what is agreed on), `participant.py` (a member), `summing.py` (the
server). Nothing here knows Flower, Ray or torch.
"""
