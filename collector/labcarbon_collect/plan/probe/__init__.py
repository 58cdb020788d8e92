"""A probe: a short run of the real command that is measured and ended."""
