"""Several small jobs on one GPU: MIG slices, MPS, time slicing. Pure. docs/planner.md describes the
model.
"""
