"""Storing a batch: one transaction, one answer per window. The same door for collectors, imports and declarations."""

from apps.ingest.services.batches import accept_batch, accept_declared
from apps.ingest.services.store import mark_dirty

__all__ = ["accept_batch", "accept_declared", "mark_dirty"]
