"""How a data set is split into clients' parts: one file per scheme, named as users write it.

Each file holds `PARTITION`, a `fl_dp.data.partition_scheme.Partition`; no other registration is needed. Its
name and parameter are part of data set names in ledgers: neither may change later.
"""
