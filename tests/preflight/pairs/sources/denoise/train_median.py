"""Choose the width of a median filter. Reads the same settings as train.py."""

import hashlib
import random
import statistics
from pathlib import Path

import train

signal = [float(line) for line in Path(train.DATA).read_text().split()]
random.seed(None if train.SEED is None else int(train.SEED))
noisy = [value + random.gauss(0, train.NOISE) for value in signal]
losses = []
for width in range(1, train.EPOCHS * 2, 2):
    filtered = [statistics.median(noisy[i : i + width]) for i in range(len(noisy) - width)]
    losses.append(sum(abs(a - b) for a, b in zip(filtered, signal[width // 2 :])))
digest = hashlib.sha256(repr(losses).encode()).hexdigest()[:16]
print("RESULT", digest, "unseeded" if train.SEED is None else f"seed {train.SEED}")
