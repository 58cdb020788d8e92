"""Estimate a training before it starts: memory and operations of the model, from its own code or an
ONNX file, or time, power and memory from a probe of the command.

--model: the model is built and run once under PyTorch's fake tensors: nothing is allocated,
nothing is computed and no GPU is needed. Run this in the Python environment of the training.

Example: labcarbon-collect plan --model package.module:build --input 3x224x224 --batch 32
With integer ids: --input tokens:512:vocab=30522. Other inputs: a function inputs(batch) in the
module of the model, which returns a tensor, a tuple, or a dict of keyword arguments.

--onnx: the graph of the file is uploaded to the server, without the numbers of the weights. The
file is not changed.

Example: labcarbon-collect plan --onnx model.onnx --input 3x224x224

--probe: the command runs for a while, is measured after a warm-up of 30 s and is then ended. Its
current folder is an empty scratch folder, unless --in-place is given. Arguments that name existing
files stay those files. The command can detect a probe by LABCARBON_PROBE=1.

Example: labcarbon-collect plan --probe 120s --epochs 20 -- python train.py
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path
from typing import Optional

from labcarbon_collect.config import Login, read_login
from labcarbon_collect.errors import CommandError
from labcarbon_collect.node_identity import ConfigurationError
from labcarbon_collect.plan import dry_run, text
from labcarbon_collect.plan.inputs import parse_input
from labcarbon_collect.plan.memory import STATE_COPIES
from labcarbon_collect.plan.model_code import load_model_code, parse_arguments
from labcarbon_collect.plan.model_files.command import OnnxTraining, run_onnx
from labcarbon_collect.plan.probe import runner
from labcarbon_collect.plan.probe.result import (
    TotalWork,
    compute_result,
    format_lines,
    to_json,
)
from labcarbon_collect.plan.trainable import parse_trainable

_PROBE_USAGE = "labcarbon-collect plan --probe 90s -- python train.py"
_UNITS_S = {"": 1, "s": 1, "m": 60, "min": 60}
_MIN_PROBE_S, _MAX_PROBE_S = 10, 3600


def add_arguments(parser: argparse.ArgumentParser) -> None:
    sources = parser.add_argument_group("source of the estimate").add_mutually_exclusive_group(
        required=True
    )
    sources.add_argument(
        "--model",
        metavar="MODULE:FUNCTION",
        help="function that returns the model, as in package.module:build or model.py:build",
    )
    sources.add_argument("--onnx", type=Path, metavar="FILE", help="model in ONNX format")
    sources.add_argument(
        "--probe",
        type=_probe_seconds,
        metavar="TIME",
        help="run the command for this time, as in 90s or 2m (30 s are warm-up, 60 s are needed)",
    )
    parser.add_argument("--json", action="store_true", help="print the estimate as JSON")
    _add_model_arguments(parser.add_argument_group("with --model or --onnx"))
    _add_training_arguments(parser.add_argument_group("training"))
    _add_probe_arguments(parser.add_argument_group("with --probe"))
    parser.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        metavar="-- COMMAND …",
        help="with --probe: the command and its arguments",
    )


def _add_model_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="SIZE",
        help="one input of a sample: 3x224x224, or tokens:512:vocab=30522 for integer ids. "
        "NAME=SIZE for a keyword argument, or for an input of the ONNX graph. Can be repeated",
    )
    group.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="with --model: argument of the function, as in width=64. Can be repeated",
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


def _add_probe_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--steps", type=_count, metavar="N", help="end the probe after N steps")
    group.add_argument(
        "--in-place", action="store_true", help="run in the current folder instead of a scratch one"
    )
    group.add_argument(
        "--standalone", action="store_true", help="measure power without a running daemon"
    )
    work = group.add_mutually_exclusive_group()
    work.add_argument("--total-steps", type=_count, metavar="N", help="steps of the whole training")
    work.add_argument("--epochs", type=_count, metavar="N", help="epochs of the whole training")
    group.add_argument(
        "--steps-per-epoch",
        type=_count,
        metavar="N",
        help="steps of an epoch (default: the end of the counter that the command prints)",
    )
    group.add_argument("--project", metavar="P", help="slug of the project of the probe")
    group.add_argument("--name", metavar="N", help="name of the run (default: the script's name)")


def run(args: argparse.Namespace) -> int:
    command = args.program[1:] if args.program[:1] == ["--"] else args.program
    if args.probe is not None:
        return _run_probe(args, command)
    if command:
        raise CommandError(f"A command is run by --probe only. Usage: {_PROBE_USAGE}")
    if args.onnx is not None:
        return _run_onnx(args)
    return _run_model(args)


def _run_probe(args: argparse.Namespace, command: list[str]) -> int:
    if not command:
        raise CommandError(f"No command was given. Usage: {_PROBE_USAGE}")
    options = runner.ProbeOptions(
        command,
        args.probe * 1_000_000,
        steps=args.steps,
        is_in_place=args.in_place,
        is_standalone=args.standalone,
        project=args.project,
        name=args.name,
    )
    probe = runner.run_probe(options, _login(), _notify)
    result = compute_result(probe, TotalWork(args.total_steps, args.epochs, args.steps_per_epoch))
    if args.json:
        print(json.dumps(to_json(result), indent=2))
    else:
        print("\n".join(format_lines(result)))
    if probe.is_interrupted:
        return 130
    return 1 if result.has_failed else 0


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


def _run_onnx(args: argparse.Namespace) -> int:
    if args.arg:
        raise CommandError("--arg is for --model. An ONNX file has no arguments")
    training = OnnxTraining(
        args.batch,
        args.optimiser,
        args.precision,
        parse_trainable(args.trainable),
        args.checkpoint,
    )
    login = _required_login()
    return run_onnx(args.onnx, args.input, training, login, is_json=args.json, notify=_notify)


def _required_login() -> Login:
    login = _login()
    if login is None:
        raise CommandError("You are not logged in. Log in with: labcarbon-collect login URL")
    return login


def _login() -> Optional[Login]:
    try:
        return read_login(os.environ)
    except ConfigurationError as refused:
        _notify(str(refused))
        return None


def _notify(line: str) -> None:
    print(f"labcarbon: {line}", file=sys.stderr, flush=True)


def _probe_seconds(time: str) -> int:
    match = re.fullmatch(r"(\d{1,6})\s*(s|m|min|)", time)
    seconds = int(match.group(1)) * _UNITS_S[match.group(2)] if match else 0
    if not _MIN_PROBE_S <= seconds <= _MAX_PROBE_S:
        raise argparse.ArgumentTypeError(
            f"{time!r} is not a time from {_MIN_PROBE_S}s to {_MAX_PROBE_S // 60}m, as in 90s"
        )
    return seconds


def _count(number: str) -> int:
    if not number.isdecimal() or not 1 <= int(number) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{number!r} is not a number from 1 to 1000000")
    return int(number)
