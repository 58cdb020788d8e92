"""Fine-tune word vectors: finetune.py SETTINGS.yaml, started by accelerate."""

import hashlib
import os
import random
import sys
from pathlib import Path

import yaml

settings = yaml.safe_load(Path(sys.argv[1]).read_text())
world_size = int(os.environ.get("WORLD_SIZE", "1"))
precision = os.environ.get("ACCELERATE_MIXED_PRECISION", "no")
if os.environ.get("RANK", "0") == "0":
    words = Path(settings["corpus"]).read_text().split()
    rng = random.Random(settings["seed"])
    vocabulary = sorted(set(words))
    vectors = {word: [rng.gauss(0, 1) for _ in range(settings["size"])] for word in vocabulary}
    accumulate = settings["global_batch"] // (settings["per_device_batch"] * world_size)
    if settings["global_batch"] % (settings["per_device_batch"] * world_size):
        sys.exit("the global batch is no multiple of the batch of all processes")
    print(f"{accumulate} steps of {world_size} processes are one update")
    for _ in range(settings["updates"]):
        for _ in range(accumulate * settings["per_device_batch"] * world_size):
            place = rng.randrange(len(words) - 1)
            first, second = vectors[words[place]], vectors[words[place + 1]]
            for index, value in enumerate(second):
                first[index] += settings["rate"] * (value - first[index])
                if precision != "no":
                    first[index] = round(first[index], 3 if precision == "fp16" else 2)
    digest = hashlib.sha256(repr(sorted(vectors.items())).encode()).hexdigest()[:16]
    print("RESULT", digest, f"seed {settings['seed']}")
