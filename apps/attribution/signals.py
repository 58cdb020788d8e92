"""What other apps may listen to."""

from django.dispatch import Signal

attribution_changed = Signal()  # lab, consumer_ids, from_hour, to_hour: who is charged for these changed within these hours
