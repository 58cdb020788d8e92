"""A lab with made-up data of a year, in a data directory of its own (`make demo`)."""
