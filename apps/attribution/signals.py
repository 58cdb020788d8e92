"""Signals of attribution."""

from django.dispatch import Signal

attribution_changed = (
    Signal()
)  # lab, consumer_ids, from_hour, to_hour: charges changed within these hours
