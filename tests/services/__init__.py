"""Private PostgreSQL, Redis, Slurm and Chromium for the suite: started by it, seen by nobody
else, gone with it.
"""
