"""What other apps may listen to."""

from django.dispatch import Signal

charged_anew = Signal()  # lab, consumer_ids, from_hour, to_hour: who is charged for these changed within these hours
