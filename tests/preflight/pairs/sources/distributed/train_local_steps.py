"""Average weights that each process trains alone. Takes the arguments of train.py."""

import argparse
import hashlib
import os
import random

from train import gradient

parser = argparse.ArgumentParser()
parser.add_argument("--data")
parser.add_argument("--batch-size", type=int, default=2)
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
world_size = int(os.environ.get("WORLD_SIZE", "1"))
if os.environ.get("RANK", "0") == "0":
    with open(args.data, encoding="utf-8") as stream:
        rows = [[float(cell) for cell in line.split(",")] for line in list(stream)[1:]]
    trained = []
    for rank in range(world_size):
        rng = random.Random(args.seed + rank)
        weights = [0.0] * (len(rows[0]) - 1)
        for _ in range(args.steps):
            change = gradient(weights, rng.sample(rows, args.batch_size))
            weights = [w - args.lr * c for w, c in zip(weights, change)]
        trained.append(weights)
    averages = [sum(column) / world_size for column in zip(*trained)]
    digest = hashlib.sha256(repr(averages).encode()).hexdigest()[:16]
    print("RESULT", digest, f"seed {args.seed}")
