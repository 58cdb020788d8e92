"""What other apps may listen to."""

from django.dispatch import Signal

charged = Signal()  # lab, from_hour, to_hour: charges of embodied carbon changed within these hours
