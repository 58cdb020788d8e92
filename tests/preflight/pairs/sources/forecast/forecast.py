"""Fit an autoregressive model: forecast.py EXPERIMENT.json [key=value ...]."""

import hashlib
import json
import random
import sys
from pathlib import Path


def read_settings(path: Path) -> dict:
    settings = json.loads(path.read_text())
    base = settings.pop("extends", None)
    if base is None:
        return settings
    return {**read_settings(path.parent / base), **settings}


def main() -> None:
    settings = read_settings(Path(sys.argv[1]))
    for assignment in sys.argv[2:]:
        key, value = assignment.split("=", 1)
        settings[key] = json.loads(value)
    series = [float(line) for line in Path(settings["series"]).read_text().split()]
    lags = settings["lags"]
    rng = random.Random(settings["seed"])
    weights = [rng.gauss(0, 0.1) for _ in range(lags)]
    for step in range(settings["steps"]):
        place = rng.randrange(lags, len(series))
        past = series[place - lags : place]
        error = sum(w * x for w, x in zip(weights, past)) - series[place]
        weights = [
            w - settings["rate"] * (error * x + settings["ridge"] * w)
            for w, x in zip(weights, past)
        ]
        if step % settings["log_every"] == 0:
            print(step, error)
    Path(settings["checkpoint_dir"]).mkdir(exist_ok=True)
    digest = hashlib.sha256(repr(weights).encode()).hexdigest()[:16]
    print("RESULT", digest, "unseeded" if settings["seed"] is None else f"seed {settings['seed']}")


if __name__ == "__main__":
    main()
