"""Search parameters of a ridge regression at random; each trial is a nested run of MLflow."""

import contextlib
import hashlib
import os
import random
import sys
from pathlib import Path

import yaml

try:
    import mlflow
except ImportError:
    mlflow = None


def start_run(name, nested=False):
    if mlflow is None:
        return contextlib.nullcontext()
    return mlflow.start_run(run_name=name, nested=nested)


def fit(rows, ridge, rate, passes):
    weight, bias = 0.0, 0.0
    for _ in range(passes):
        for x, y, _ in rows:
            error = weight * x + bias - y
            weight -= rate * (error * x + ridge * weight)
            bias -= rate * error
    return weight, bias, sum((weight * x + bias - y) ** 2 for x, y, _ in rows)


settings = yaml.safe_load(Path(sys.argv[1]).read_text())
rows = [
    [float(cell) for cell in line.split(",")]
    for line in Path(settings["data"]).read_text().splitlines()[1:]
]
rng = random.Random(settings.get("seed"))
results = []
with start_run(os.environ.get("MLFLOW_RUN_NAME", settings["run_name"])):
    for trial in range(settings["trials"]):
        ridge = 10 ** rng.uniform(*settings["ridge_exponent"])
        with start_run(f"trial {trial}", nested=True):
            results.append((*fit(rows, ridge, settings["rate"], settings["passes"]), ridge))
            if mlflow is not None:
                mlflow.log_param("ridge", ridge)
                mlflow.log_metric("loss", results[-1][2])
best = min(results, key=lambda result: result[2])
digest = hashlib.sha256(repr((best, results)).encode()).hexdigest()[:16]
print("RESULT", digest, f"seed {settings['seed']}" if "seed" in settings else "unseeded")
