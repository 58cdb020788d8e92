"""Train a small image model. Configured by Hydra."""

import hashlib
import logging
import random
from pathlib import Path

import hydra
from hydra.utils import to_absolute_path
from layers import build
from omegaconf import DictConfig

log = logging.getLogger(__name__)


def load(data: DictConfig) -> list[list[float]]:
    lines = Path(to_absolute_path(data.path)).read_text().splitlines()[1:]
    rows = [[float(cell) for cell in line.split(",")] for line in lines]
    return [[*row[: data.crop], row[-1]] for row in rows]


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(config: DictConfig) -> None:
    log.info("%s on %s", config.name, config.device)
    rows = load(config.data)
    if config.seed is not None:
        random.seed(config.seed)
    model = build(config.model, len(rows[0]) - 1)
    speed = [0.0] * len(model.weights)
    for _ in range(config.epochs):
        random.shuffle(rows)
        for *pixels, label in rows:
            gradient = model.gradient(pixels, label)
            speed = [config.optimizer.momentum * s + g for s, g in zip(speed, gradient)]
            model.weights = [w - config.optimizer.lr * s for w, s in zip(model.weights, speed)]
            if config.precision == 16:
                model.weights = [round(w, 3) for w in model.weights]
    Path(config.checkpoint_dir).mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(repr(model.weights).encode()).hexdigest()[:16]
    print("RESULT", digest, "unseeded" if config.seed is None else f"seed {config.seed}")


if __name__ == "__main__":
    main()
