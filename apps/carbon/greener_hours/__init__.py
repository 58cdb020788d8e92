"""The greenest start of a job: expected grid intensity, starts, API."""
