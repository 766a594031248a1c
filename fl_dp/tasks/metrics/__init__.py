"""Metrics of a model on the server's test data, each a `fl_dp.tasks.metric.Metric`.

A metric is a row of a table here, or a file of its own that holds `METRIC`; no other registration is needed.
"""
