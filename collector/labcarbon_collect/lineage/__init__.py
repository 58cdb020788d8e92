"""Records which artifacts a run reads and writes."""
