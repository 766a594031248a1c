"""Accountants: one file each, with its mathematics, named as users write it.

A file here holds `ACCOUNTANT`, a `fl_dp.accounting.accountant.Accountant`; nothing has to be registered
elsewhere. Only an accountant whose epsilon is a proven upper bound, `upper_bound=True`, may hold a budget.
"""
