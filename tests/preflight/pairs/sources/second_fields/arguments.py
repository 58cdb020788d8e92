"""Dataclasses of arguments, and their parser."""

import argparse
import json
import sys
from dataclasses import dataclass, field, fields
from pathlib import Path


@dataclass
class TrainingArguments:
    output_dir: str = field(default="out")
    learning_rate: float = field(default=5e-2, metadata={"help": "The initial rate."})
    num_train_epochs: int = 3
    weight_decay: float = 0.0
    per_device_train_batch_size: int = 8
    gradient_accumulation_steps: int = 1
    seed: int = 42
    run_name: str = ""
    report_to: str = "none"
    logging_steps: int = 500
    save_steps: int = 500
    overwrite_output_dir: str = "false"
    resume_from_checkpoint: str = ""


@dataclass
class DataArguments:
    train_file: str = "data/default.csv"
    max_train_samples: int = 0


def parse(*classes):
    """Return an instance of each class: from a JSON file, or from the command line."""
    if len(sys.argv) == 2 and sys.argv[1].endswith(".json"):
        values = json.loads(Path(sys.argv[1]).read_text())
        return [
            each(**{one.name: values[one.name] for one in fields(each) if one.name in values})
            for each in classes
        ]
    parser = argparse.ArgumentParser()
    for each in classes:
        for one in fields(each):
            parser.add_argument(f"--{one.name}", type=type(one.default), default=one.default)
    found = vars(parser.parse_args())
    return [each(**{one.name: found[one.name] for one in fields(each)}) for each in classes]
