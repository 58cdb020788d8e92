"""A small language model."""
