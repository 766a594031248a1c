"""What the server does with the aggregated updates: a file for each optimizer, by the name that users write.

A file here holds `SERVER_OPTIMIZER`, a subclass of `ServerOptimizer` (../optimizer.py); nothing has to be
registered elsewhere. `state` returns what it keeps between rounds, and `restore` takes it back.
"""
