"""How a data set is split into clients' parts: one file a scheme, named as users write it.

A file here holds `PARTITION`, a `fl_dp.data.partition_scheme.Partition`, and nothing has to be entered
anywhere else. Its name and parameter are part of data sets' names in ledgers: neither may change later.
"""
