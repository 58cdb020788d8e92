"""Freezes the facts of a seeded lab, so that two states of the code can be compared."""
