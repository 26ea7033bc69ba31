"""Interprets a heterplan Program on torch.distributed: one process a rank.

The directory of a plan holds what this package reads: plan.json, ranks/NNNN.json, model.py and
perhaps weights/. `python -m heterplan_runtime DIRECTORY` trains it for a few steps; see main.py.
"""
