"""Training with the options of a trainer and a model, as in Lightning's command line."""

import random
import sys

import yaml
from core import fit, load, report


def read(arguments):
    """Merge configuration files and dotted options, in the order of the command."""
    config = {
        "seed_everything": 1,
        "trainer": {"max_epochs": 3, "precision": 32, "default_root_dir": "logs"},
        "model": {"lr": 0.1, "decay": 0.0},
        "data": {"path": "data/a.csv", "batch_size": 8, "num_workers": 2},
    }
    words = list(arguments)
    while words:
        name, _, value = words.pop(0).removeprefix("--").partition("=")
        value = value or words.pop(0)
        if name == "config":
            with open(value, encoding="utf-8") as stream:
                for part, values in yaml.safe_load(stream).items():
                    if isinstance(values, dict):
                        config[part].update(values)
                    else:
                        config[part] = values
        elif "." in name:
            part, key = name.split(".")
            config[part][key] = yaml.safe_load(value)
        else:
            config[name] = yaml.safe_load(value)
    return config


def main():
    command, *arguments = sys.argv[1:]
    config = read(arguments)
    seed = config["seed_everything"]
    rng = random.Random(seed)
    trainer, model, data = config["trainer"], config["model"], config["data"]
    epochs = trainer["max_epochs"] if command == "fit" else 1
    weights = fit(load(data["path"]), rng, model["lr"], epochs, model["decay"], data["batch_size"])
    if trainer["precision"] != 32:
        weights = [round(w, 2) for w in weights]
    report(weights, seed)


if __name__ == "__main__":
    main()
