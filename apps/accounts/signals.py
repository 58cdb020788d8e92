"""Signals of accounts."""

from django.dispatch import Signal

# A person is about to be erased in ``lab``. A receiver raises Conflict if something open refers to
# a text with one of ``names`` (ErasedNames).
erasure_checked = Signal()
# Names in the texts of ``lab`` were replaced. Keys that are computed from texts are due again.
names_replaced = Signal()
# A revoked token of a node is used. A receiver returns the error that states the reason, or None.
# Arguments: token.
node_token_refused = Signal()
