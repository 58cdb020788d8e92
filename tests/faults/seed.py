"""The seed of the fault tests: ``LABCARBON_SEED`` (printed at the end of each run), and how many
faults: ``LABCARBON_KILLS``, ``LABCARBON_HOSTILE_REQUESTS``.
"""

import os

SEED = int(os.environ["LABCARBON_SEED"])
KILLS = int(os.environ.get("LABCARBON_KILLS", "0"))  # 0: as many as the suite has time for
HOSTILE_REQUESTS = int(os.environ.get("LABCARBON_HOSTILE_REQUESTS", "1000"))
