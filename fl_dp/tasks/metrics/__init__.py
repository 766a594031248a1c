"""What is reported of a model on the server's test data: one file a metric, named as users write it.

A file here holds `METRIC`, a `fl_dp.tasks.metric.Metric`, and nothing has to be entered anywhere else.
"""
