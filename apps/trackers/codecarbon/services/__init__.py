"""Writes of CodeCarbon: its tokens, what comes in, the work on it, files."""
