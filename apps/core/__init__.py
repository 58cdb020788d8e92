"""Units, intervals, errors, the clock, the job queue and shared parts of the API. Imports no other
app.
"""
