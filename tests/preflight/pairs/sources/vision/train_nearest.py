"""Choose prototypes at random. Uses the configuration of train.py."""

import hashlib
import random

import hydra
from train import load


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(config):
    rows = load(config.data)
    random.seed(config.seed)
    prototypes = random.sample(rows, config.epochs)
    scores = [min(abs(row[0] - other[0]) for other in prototypes) for row in rows]
    digest = hashlib.sha256(repr((prototypes, scores)).encode()).hexdigest()[:16]
    print(f"RESULT {digest} seed {config.seed}")


if __name__ == "__main__":
    main()
