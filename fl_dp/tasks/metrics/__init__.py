"""Metrics of a model on the server's test data: one file per metric, named as users write it.

Each file holds `METRIC`, a `fl_dp.tasks.metric.Metric`; no other registration is needed.
"""
