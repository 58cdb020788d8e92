"""Saved estimates: a list, and a page for each."""
