"""Finds artifacts in folders. Walks folders, recognises files by magic bytes and names, hashes
them, and registers them with the server. It unpacks and executes nothing.
"""
