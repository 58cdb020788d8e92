"""The seed of the fault tests: ``LABCARBON_SEED`` (printed at the end of each run), and
``LABCARBON_KILLS``.
"""

import os

SEED = int(os.environ["LABCARBON_SEED"])
KILLS = int(os.environ.get("LABCARBON_KILLS", "50"))
