"""The runs of a sweep: which exist already, and what the others need."""
