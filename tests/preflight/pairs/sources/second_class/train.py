"""Training with arguments that a class and helper functions declare."""

import argparse
import random

from core import fit, load, report


class Options:
    def __init__(self):
        self.parser = argparse.ArgumentParser()
        self.parser.add_argument("table")
        add_optimiser(self.parser.add_argument_group("optimiser"))
        self.add("--seed", type=int, default=13)
        self.add("--drop", type=int, action="append", default=[])
        self.add("--scale", action=argparse.BooleanOptionalAction, default=True)
        self.add("--no-shuffle", dest="shuffle", action="store_false")
        self.add("--exp-name", default="first")
        self.add("--save-path", default="saved")
        self.add("-v", "--verbose", action="count", default=0)

    def add(self, *names, **settings):
        self.parser.add_argument(*names, **settings)

    def parse(self):
        return self.parser.parse_args()


def add_optimiser(group):
    group.add_argument("-l", "--learning-rate", type=float, default=0.1)
    group.add_argument("-e", "--epochs", type=int, default=3)
    group.add_argument("--weight-decay", type=float, default=0.0)


def main():
    options = Options().parse()
    rng = random.Random(options.seed)
    rows = load(options.table)
    rows = [row for place, row in enumerate(rows) if place not in options.drop]
    if options.scale:
        rows = [[cell / 2 for cell in row] for row in rows]
    if not options.shuffle:
        rows.sort()
        rows = rows[:-1]
    weights = fit(rows, rng, options.learning_rate, options.epochs, options.weight_decay)
    if options.verbose:
        print(options.exp_name, options.save_path, weights)
    report(weights, options.seed)


if __name__ == "__main__":
    main()
