"""Before the run: what a command needs, measured with the command itself."""
