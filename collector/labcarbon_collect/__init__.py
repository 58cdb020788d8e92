"""Measures the energy of one machine, says who used it, and pushes it to LabCarbon."""

__version__ = "0.1.0"
