"""Store batches of collectors, imports and declarations: one transaction, one result per window."""

from apps.ingest.services.batches import accept_batch, accept_declared
from apps.ingest.services.store import mark_dirty
from apps.ingest.services.withdraw import withdraw_declared

__all__ = ["accept_batch", "accept_declared", "mark_dirty", "withdraw_declared"]
