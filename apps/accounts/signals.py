"""Signals of accounts."""

from django.dispatch import Signal

# A revoked token of a node is used. A receiver returns the error that states the reason, or None.
# Arguments: token.
node_token_refused = Signal()
