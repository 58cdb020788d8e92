"""Training with variables, which a helper function reads."""

import os
import random

from core import fit, load, report
from dotenv import load_dotenv

load_dotenv()


def env(name, default=None, convert=str):
    value = os.getenv(name)
    return default if value is None or value == "" else convert(value)


def main():
    seed = env("TRAIN_SEED", 3, int)
    rng = random.Random(seed)
    rows = load(env("TRAIN_TABLE", "data/a.csv"))
    weights = fit(rows, rng, env("TRAIN_LR", 0.1, float), env("TRAIN_EPOCHS", 3, int))
    if env("TRAIN_HALF", False, lambda text: text == "1"):
        weights = [round(w, 2) for w in weights]
    report(weights, seed)


main()
