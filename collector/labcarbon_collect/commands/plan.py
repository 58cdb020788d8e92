"""Estimate a training before it starts: memory and operations of the model, from its own code.

The model is built and run once under PyTorch's fake tensors: nothing is allocated, nothing is
computed and no GPU is needed. Run this in the Python environment of the training.

Example: labcarbon-collect plan --model package.module:build --input 3x224x224 --batch 32
With integer ids: --input tokens:512:vocab=30522. Other inputs: a function inputs(batch) in the
module of the model, which returns a tensor, a tuple, or a dict of keyword arguments.
"""

from __future__ import annotations

import argparse
import json

from labcarbon_collect.plan import dry_run, text
from labcarbon_collect.plan.inputs import parse_input
from labcarbon_collect.plan.memory import STATE_COPIES
from labcarbon_collect.plan.model_code import load_model_code, parse_arguments
from labcarbon_collect.plan.trainable import parse_trainable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    sources = parser.add_argument_group("source of the estimate").add_mutually_exclusive_group(
        required=True
    )
    sources.add_argument(
        "--model",
        metavar="MODULE:FUNCTION",
        help="function that returns the model, as in package.module:build or model.py:build",
    )
    parser.add_argument("--json", action="store_true", help="print the estimate as JSON")
    _add_model_arguments(parser.add_argument_group("with --model"))
    _add_training_arguments(parser.add_argument_group("training"))


def _add_model_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="SIZE",
        help="one input of a sample: 3x224x224, or tokens:512:vocab=30522 for integer ids. "
        "NAME=SIZE for a keyword argument. Can be repeated",
    )
    group.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="argument of the function, as in width=64. Can be repeated",
    )


def _add_training_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--batch", type=_count, default=32, metavar="N", help="samples of a step on one GPU (32)"
    )
    group.add_argument(
        "--optimiser", choices=sorted(STATE_COPIES), default="adam", help="optimiser (adam)"
    )
    group.add_argument(
        "--precision",
        choices=("fp32", "mixed"),
        default="fp32",
        help="fp32, or mixed: 16-bit computation with 32-bit weights (fp32)",
    )
    group.add_argument(
        "--trainable",
        default="all",
        metavar="PART",
        help="what is trained: all as the code leaves it, head, last-blocks=2 or lora=8 (all)",
    )
    group.add_argument(
        "--checkpoint",
        action="store_true",
        help="each block keeps its inputs only and is computed again in the backward pass",
    )


def run(args: argparse.Namespace) -> int:
    return _run_model(args)


def _run_model(args: argparse.Namespace) -> int:
    specs = [parse_input(form) for form in args.input]
    code = load_model_code(args.model, parse_arguments(args.arg))
    trainable = parse_trainable(args.trainable)
    training = dry_run.Training(
        args.batch, args.optimiser, args.precision, trainable, args.checkpoint
    )
    result = dry_run.run_dry(code, specs, training)
    if args.json:
        print(json.dumps(result.to_json(), indent=2))
    else:
        print("\n".join(text.format_dry_run(result)))
    return 0


def _count(number: str) -> int:
    if not number.isdecimal() or not 1 <= int(number) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{number!r} is not a number from 1 to 1000000")
    return int(number)
