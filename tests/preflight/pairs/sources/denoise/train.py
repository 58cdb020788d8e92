"""Train a linear filter that removes noise. Settings are environment variables."""

import hashlib
import os
import random
from pathlib import Path

LR = float(os.environ.get("LR", "0.05"))
EPOCHS = int(os.environ.get("EPOCHS", "4"))
WIDTH = int(os.getenv("WIDTH", "3"))
NOISE = float(os.getenv("NOISE", "0.1"))
MIXED_PRECISION = os.getenv("MIXED_PRECISION", "no")
SEED = os.environ.get("SEED")
DATA = os.environ["DATA"]
OUTPUT_DIR = Path(os.environ.get("OUTPUT_DIR", "out"))
RUN_NAME = os.environ.get("RUN_NAME", "denoise")


def main() -> None:
    signal = [float(line) for line in Path(DATA).read_text().split()]
    random.seed(None if SEED is None else int(SEED))
    noisy = [value + random.gauss(0, NOISE) for value in signal]
    taps = [1 / WIDTH] * WIDTH
    for _ in range(EPOCHS):
        for place in range(len(signal) - WIDTH):
            window = noisy[place : place + WIDTH]
            error = sum(t * x for t, x in zip(taps, window)) - signal[place + WIDTH // 2]
            taps = [t - LR * error * x for t, x in zip(taps, window)]
            if MIXED_PRECISION in {"fp16", "bf16"}:
                taps = [round(t, 3) for t in taps]
    OUTPUT_DIR.mkdir(parents=True, exist_ok=True)
    (OUTPUT_DIR / f"{RUN_NAME}.txt").write_text(repr(taps))
    print(RUN_NAME, "used device", os.environ.get("CUDA_VISIBLE_DEVICES", "none"))
    digest = hashlib.sha256(repr(taps).encode()).hexdigest()[:16]
    print("RESULT", digest, "unseeded" if SEED is None else f"seed {SEED}")


if __name__ == "__main__":
    main()
