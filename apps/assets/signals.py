"""Signals of assets for other apps."""

from django.dispatch import Signal

charged = Signal()  # lab, from_hour, to_hour: charges of embodied carbon changed within these hours
