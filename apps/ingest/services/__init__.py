"""Storing a batch: one transaction, one answer per window. The same door for collectors, imports and declarations."""

from apps.ingest.services.accept import accept_batch, accept_declared
from apps.ingest.services.write import mark_dirty

__all__ = ["accept_batch", "accept_declared", "mark_dirty"]
