import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from core import fit, load, report

table, rate, seed = sys.argv[1:]
report(fit(load(table), random.Random(int(seed)), float(rate), l2=0.0), int(seed))
