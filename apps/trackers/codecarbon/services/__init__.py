"""Writes of CodeCarbon: tokens, received messages and their processing, imported files."""
