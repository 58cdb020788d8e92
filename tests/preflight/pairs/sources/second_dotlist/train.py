"""Training whose configuration OmegaConf loads and merges."""

import random
import sys
from pathlib import Path

from core import fit, load, report
from omegaconf import OmegaConf


def main():
    base = OmegaConf.load(Path(__file__).parent / "configs" / "base.yaml")
    changes = OmegaConf.from_dotlist([word for word in sys.argv[1:] if "=" in word])
    files = [OmegaConf.load(word) for word in sys.argv[1:] if word.endswith(".yaml")]
    config = OmegaConf.merge(base, *files, changes)
    rng = random.Random(config.seed)
    optim = config.optim
    weights = fit(load(config.data.path), rng, optim.lr, optim.epochs, optim.decay)
    report(weights, config.seed)


if __name__ == "__main__":
    main()
