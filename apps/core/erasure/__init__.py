"""Names of erased persons."""
