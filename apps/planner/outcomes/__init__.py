"""Runs of estimates: attachment, outcome and score."""
