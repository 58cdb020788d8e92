"""Find checkpoints, models and datasets in folders, hash them, and tell the server what lies where.

Files are known by their first bytes and names: torch, safetensors, Keras, ONNX, GGUF, TensorFlow, JAX (Orbax), Hugging
Face, DeepSpeed and FSDP, Parquet, WebDataset, NumPy. Nothing is unpacked and no pickle is opened. Hidden files are left out,
links are not followed. What was hashed is remembered: after an interruption the same command goes on, and a second
scan reads only what changed.

exit code: 0; 1 when something is corrupt, refused or cannot be read, or could not be told (all else is done)
"""

from __future__ import annotations

import argparse

from labcarbon_collect.commands import thread_count
from labcarbon_collect.scan.medium import MEDIUMS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dirs", nargs="+", metavar="DIR", help="a folder, or an address as s3://bucket/prefix")
    parser.add_argument("--project", default="", metavar="SLUG", help="charge what is found to this project")
    parser.add_argument("--medium", choices=MEDIUMS, help="what it lies on, where the kernel cannot tell")
    parser.add_argument(
        "--threads", type=thread_count, metavar="N", help="read so many files at once (default: one per core)"
    )
    parser.add_argument(
        "--limit-mb-s", type=_rate, metavar="N", help="read at most so many MB a second, all threads together"
    )
    parser.add_argument("--verify", action="store_true", help="read everything again: finds what is corrupt")
    parser.add_argument("--all", action="store_true", dest="include_unknown", help="tell files of other formats, too")
    parser.add_argument("--dry-run", action="store_true", help="say what is new, hash nothing, tell nothing")
    parser.add_argument("--tell-again", action="store_true", help="tell the server also what it was told already")


def run(args: argparse.Namespace) -> int:
    from labcarbon_collect.scan.runner import run_scan  # what it needs, no other command does

    return run_scan(args)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no rate like 200 (MB a second)")
    return rate
