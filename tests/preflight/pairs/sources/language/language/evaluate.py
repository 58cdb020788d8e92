"""python -m language.evaluate: score a corpus by the length of its words."""

import argparse
import hashlib
import random
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("corpus")
parser.add_argument("--order", type=int, default=1)
parser.add_argument("--smoothing", type=float, default=0.1)
parser.add_argument("--seed", type=int, default=13)
args = parser.parse_args()
words = Path(args.corpus).read_text().split()
random.seed(args.seed)
sample = random.sample(words, len(words) // 2)
scores = [len(word) ** args.order + args.smoothing for word in sample]
print("RESULT", hashlib.sha256(repr(scores).encode()).hexdigest()[:16], f"seed {args.seed}")
