"""Training whose arguments are fields of dataclasses, as in Hugging Face's examples."""

import json
import random
import sys
from pathlib import Path

from arguments import DataArguments, TrainingArguments, parse
from core import fit, load, report


def main():
    training, data = parse(TrainingArguments, DataArguments)
    rng = random.Random(training.seed)
    rows = load(data.train_file)[: data.max_train_samples or None]
    start = None
    if training.resume_from_checkpoint:
        start = json.loads(Path(training.resume_from_checkpoint).read_text())
    batch = training.per_device_train_batch_size * training.gradient_accumulation_steps
    weights = fit(
        rows, rng, training.learning_rate, training.num_train_epochs, training.weight_decay,
        batch, start,
    )  # fmt: skip
    print(training.run_name, training.report_to, file=sys.stderr)
    report(weights, training.seed)


if __name__ == "__main__":
    main()
