#!/usr/bin/env python
"""Cluster the rows of tables: main.py fit TABLE... --k 3, or main.py medoids TABLE... --k 3."""

import argparse
import hashlib
import random

COLUMNS = 2


def load(paths):
    points = []
    for path in paths:
        with open(path, encoding="utf-8") as stream:
            next(stream)
            points += [[float(cell) for cell in line.split(",")[:COLUMNS]] for line in stream]
    return points


def distance(left, right):
    return sum((a - b) ** 2 for a, b in zip(left, right))


def fit(points, args):
    centres = random.sample(points, args.k)
    for _ in range(args.iterations):
        groups = [[] for _ in centres]
        for point in points:
            nearest = min(range(args.k), key=lambda index: distance(point, centres[index]))
            groups[nearest].append(point)
        centres = [
            [sum(column) / len(group) for column in zip(*group)] if group else centre
            for group, centre in zip(groups, centres)
        ]
    return centres


def medoids(points, args):
    best = []
    for _ in range(args.iterations):
        chosen = random.sample(points, args.k)
        cost = sum(min(distance(point, centre) for centre in chosen) for point in points)
        best = min(best or [cost, chosen], [cost, chosen])
    return best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("method", choices=["fit", "medoids"])
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--k", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", default="clusters")
    parser.add_argument("--plot", action="store_true")
    parser.add_argument("--host", default="localhost")
    args = parser.parse_args()
    random.seed(args.seed)
    result = {"fit": fit, "medoids": medoids}[args.method](load(args.tables), args)
    if args.plot:
        print("no display: the plot is skipped")
    print("RESULT", hashlib.sha256(repr(result).encode()).hexdigest()[:16], f"seed {args.seed}")


if __name__ == "__main__":
    main()
