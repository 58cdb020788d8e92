"""Training with several configuration files: the default file, then those of --config."""

import argparse
import os
import random
from dataclasses import dataclass

import yaml
from core import fit, load, report


@dataclass
class Config:
    table: str = "data/a.csv"
    rate: float = 0.1
    epochs: int = 3
    decay: float = 0.0
    seed: int = 6
    comment: str = ""
    output: str = "out"


def read(paths):
    values = {}
    for path in paths:
        with open(path, encoding="utf-8") as stream:
            values.update(yaml.safe_load(os.path.expandvars(stream.read())) or {})
    return Config(**values)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", nargs="+", default=[])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    config = read(["configs/default.yaml", *options.config])
    for word in options.set:
        key, value = word.split("=", 1)
        setattr(config, key, type(getattr(config, key))(value))
    weights = fit(
        load(config.table), random.Random(config.seed), config.rate, config.epochs, config.decay
    )
    report(weights, config.seed)
