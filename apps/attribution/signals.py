"""What other apps may listen to."""

from django.dispatch import Signal

charged_anew = Signal()  # lab: who is charged for what was used changed, at whatever time
