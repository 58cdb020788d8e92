"""What other apps may listen to, so that nothing is asked for that nobody needs."""

from django.dispatch import Signal

settled = Signal()  # lab, hours: the ledger of these UTC hours was written
idle_spread = Signal()  # lab, from_hour, to_hour: the parts of idle energy that projects bear changed within these hours
