"""Train a logistic regression on a table."""

import argparse
import csv
import hashlib
import logging
import math
import random
from pathlib import Path

from optimizers import OPTIMIZERS


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--l2", type=float, default=0.0)
    parser.add_argument("--optimizer", default="sgd")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--output-dir", default="results")
    parser.add_argument("--run-name", default="")
    parser.add_argument("--notes", default="")
    parser.add_argument("--tags", nargs="*", default=[])
    parser.add_argument("--log-level", default="INFO")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--port", type=int, default=6006)
    parser.add_argument("--wandb-project", default="")
    parser.add_argument("--quiet", action="store_true")
    return parser.parse_args()


def load_rows(path):
    with open(path, newline="", encoding="utf-8") as stream:
        rows = [[float(cell) for cell in row] for row in list(csv.reader(stream))[1:]]
    return [([*row[:-1], 1.0], row[-1]) for row in rows]


def main():
    args = parse_args()
    logging.basicConfig(level=args.log_level)
    logging.info("device %s, %d workers", args.device, args.num_workers)
    rows = load_rows(args.data)
    if args.seed is not None:
        random.seed(args.seed)
    weights = [random.gauss(0, 0.1) for _ in rows[0][0]]
    optimizer = OPTIMIZERS[args.optimizer](args.lr)
    for epoch in range(args.epochs):
        random.shuffle(rows)
        for start in range(0, len(rows), args.batch_size):
            batch = rows[start : start + args.batch_size]
            gradient = [args.l2 * w for w in weights]
            for features, label in batch:
                score = sum(w * x for w, x in zip(weights, features))
                error = 1 / (1 + math.exp(-score)) - label
                gradient = [g + error * x / len(batch) for g, x in zip(gradient, features)]
            weights = optimizer.step(weights, gradient)
            if args.precision == "bf16":
                weights = [round(w, 2) for w in weights]
        logging.info("epoch %d: %s", epoch, weights)
    output = Path(args.output_dir)
    output.mkdir(parents=True, exist_ok=True)
    (output / "weights.json").write_text(str(weights))
    digest = hashlib.sha256(repr(weights).encode()).hexdigest()[:16]
    print("RESULT", digest, "unseeded" if args.seed is None else f"seed {args.seed}")


if __name__ == "__main__":
    main()
