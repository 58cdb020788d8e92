"""What a run read and what it made: declared by its script, read and told by a process of its own."""
