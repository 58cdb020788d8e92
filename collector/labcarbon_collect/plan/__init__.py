"""Costs of a model before its training: from its code, without a GPU and without its memory."""
