"""Writes of asset sources: sources, polls, and decisions about rows."""
