"""Train a network that labels pixels: train.py [--config FILE]."""

import argparse
import csv
import hashlib
import random
from pathlib import Path

import yaml
from networks import NETWORKS

HERE = Path(__file__).parent


def load_pixels(settings):
    with open(settings["path"], encoding="utf-8") as stream:
        rows = [[float(cell) for cell in row] for row in list(csv.reader(stream))[1:]]
    if settings["normalise"]:
        means = [sum(column) / len(rows) for column in zip(*rows)]
        rows = [[*(x - m for x, m in zip(row[:-1], means)), row[-1]] for row in rows]
    return [([*row[:-1], 1.0], row[-1]) for row in rows]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default=HERE / "config.yaml")
    config = yaml.safe_load(Path(parser.parse_args().config).read_text())
    training = config["training"]
    seed = training.get("seed")
    if seed is not None:
        random.seed(seed)
    pixels = load_pixels(config["data"])
    network = NETWORKS[config["model"]["name"]](len(pixels[0][0]), config["model"]["hidden"])
    losses = []
    for _ in range(training["epochs"]):
        random.shuffle(pixels)
        for pixel, label in pixels:
            loss = network.update(pixel, label, training["learning_rate"])
            losses.append(round(loss, 2) if training["precision"] == "bf16" else loss)
        if config["logging"]["level"] == "DEBUG":
            print("loss", losses[-1])
    output = Path(config["output"]["folder"])
    output.mkdir(parents=True, exist_ok=True)
    (output / f"{config['output']['run_name']}.txt").write_text(repr(vars(network)))
    digest = hashlib.sha256(repr((vars(network), losses)).encode()).hexdigest()[:16]
    print("RESULT", digest, "unseeded" if seed is None else f"seed {seed}")


if __name__ == "__main__":
    main()
