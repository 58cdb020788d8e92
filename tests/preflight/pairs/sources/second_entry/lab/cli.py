"""The command lab-train. Settings: the table [tool.lab] of pyproject.toml, then key=value."""

import random
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

from lab.core import fit, load, report

DEFAULTS = SimpleNamespace(lr=0.1, epochs=3, seed=8, data="data/a.csv", name="lab")


def main(**changes):
    settings = SimpleNamespace(**vars(DEFAULTS))
    project = tomllib.loads(Path("pyproject.toml").read_text())
    vars(settings).update(project["tool"].get("lab", {}))
    for word in sys.argv[1:]:
        if "=" in word:
            key, value = word.lstrip("-").split("=", 1)
            setattr(settings, key, type(getattr(settings, key))(value))
    vars(settings).update(changes)
    rng = random.Random(settings.seed)
    report(fit(load(settings.data), rng, settings.lr, settings.epochs), settings.seed)
