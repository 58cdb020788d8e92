"""Signals of accounts."""

from django.dispatch import Signal

# Names in the texts of ``lab`` were replaced. Keys that are computed from texts are due again.
names_replaced = Signal()
