"""Units, intervals, errors, the clock, the job table and the plumbing of the API. Imports no other app."""
