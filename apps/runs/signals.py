"""Signals of runs, for apps that runs know nothing of."""

from django.dispatch import Signal

# Sent with ``run`` (saved) in the transaction of its registration, if the registration names an
# estimate. A receiver returns a warning for the response, or ''.
estimate_requested = Signal()
