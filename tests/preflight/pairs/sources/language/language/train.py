"""python -m language.train: fit a smoothed n-gram model to a random part of a corpus."""

import argparse
import hashlib
import math
import random
import subprocess
import sys
from pathlib import Path

from language.counts import count_contexts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus")
    parser.add_argument("--order", type=int, default=1)
    parser.add_argument("--smoothing", type=float, default=0.1)
    parser.add_argument("--held-out", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--out", default="model.txt")
    parser.add_argument("--experiment", default="default")
    parser.add_argument("-v", "--verbose", action="count", default=0)
    args = parser.parse_args()

    cleaning = [sys.executable, str(Path(__file__).parent.parent / "clean.py"), args.corpus]
    lines = subprocess.run(cleaning, capture_output=True, text=True, check=True).stdout.splitlines()
    rng = random.Random(args.seed)
    rng.shuffle(lines)
    held_out = int(len(lines) * args.held_out)
    counts = count_contexts(lines[held_out:], args.order)
    loss = 0.0
    for context, following in sorted(count_contexts(lines[:held_out], args.order).items()):
        fitted = counts.get(context, {})
        for word, number in sorted(following.items()):
            chance = (fitted.get(word, 0) + args.smoothing) / (
                sum(fitted.values()) + 50 * args.smoothing
            )
            loss -= number * math.log(chance)
    Path(args.out).write_text(repr(counts))
    digest = hashlib.sha256(repr((sorted(counts.items()), loss)).encode()).hexdigest()[:16]
    print(f"RESULT {digest} seed {args.seed}")


if __name__ == "__main__":
    main()
