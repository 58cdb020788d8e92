"""Experiment trackers as sources: one adapter each."""
