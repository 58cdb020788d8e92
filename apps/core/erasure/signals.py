"""Signals of erasures."""

from django.dispatch import Signal

# The rows of lists of erasures that the restored database does not have: ``rows``, ``now``.
erasures_missing = Signal()
