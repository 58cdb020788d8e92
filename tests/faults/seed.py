"""What repeats a run of the fault tests: ``LABCARBON_SEED`` (told at the end of each run) and ``LABCARBON_KILLS`` (50)."""

import os

SEED = int(os.environ["LABCARBON_SEED"])
KILLS = int(os.environ.get("LABCARBON_KILLS", "50"))
