"""Facts of the syntax of Python code. Pure."""
