"""Market-based emissions of electricity: instruments, matching with consumption, and findings."""
