"""Finds artifacts in folders: walked, recognised by magic and names, hashed, kept, told. Nothing is unpacked or run."""
