"""Signals of energy."""

from django.dispatch import Signal

settled = Signal()  # lab, hours: the ledger of these UTC hours was written
idle_spread = Signal()  # lab, from_hour, to_hour: idle shares changed within these hours
