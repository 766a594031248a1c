"""What the server does with the aggregated updates: one file an optimizer, named as users write it.

A file here holds `SERVER_OPTIMIZER`, a class that is a `ServerOptimizer` (../optimizer.py), and nothing has
to be entered anywhere else. What it remembers between rounds it gives by `state` and takes by `restore`.
"""
