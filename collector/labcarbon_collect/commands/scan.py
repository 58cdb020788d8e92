"""Find and hash checkpoints, models and datasets, and register them with the server.

Files are recognised by their first bytes and names: torch, safetensors, Keras, ONNX, GGUF,
TensorFlow, JAX (Orbax), Hugging Face, DeepSpeed and FSDP, Parquet, WebDataset, NumPy. No archive is
unpacked and no pickle is opened. Hidden files and links are skipped. Hashes are saved: after an
interruption, run the same command to continue. A second scan reads only changed files.

exit code: 0; 1 if something is corrupt, refused or unreadable, or could not be registered
"""

from __future__ import annotations

import argparse

from labcarbon_collect.commands import add_alias, thread_count
from labcarbon_collect.scan.medium import MEDIUMS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "dirs", nargs="+", metavar="DIR", help="a folder, or an address like s3://bucket/prefix"
    )
    parser.add_argument(
        "--project", default="", metavar="SLUG", help="charge the artifacts to this project"
    )
    parser.add_argument(
        "--medium", choices=MEDIUMS, help="storage medium, if it cannot be detected"
    )
    parser.add_argument(
        "--threads",
        type=thread_count,
        metavar="N",
        help="number of files to read in parallel (default: one per core)",
    )
    parser.add_argument(
        "--limit-mb-s",
        type=_rate,
        metavar="N",
        help="maximum read rate of all threads together, in MB per second",
    )
    parser.add_argument(
        "--verify", action="store_true", help="read all files again to find corrupt ones"
    )
    include_unknown = parser.add_argument(
        "--include-unknown", action="store_true", help="also register files of unknown formats"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print new artifacts; hash and register nothing"
    )
    resend = parser.add_argument(
        "--resend", action="store_true", help="send everything again, also unchanged artifacts"
    )
    add_alias(parser, "--all", include_unknown)
    add_alias(parser, "--tell-again", resend)


def run(args: argparse.Namespace) -> int:
    from labcarbon_collect.scan.runner import run_scan  # imported here: only this command needs it

    return run_scan(args)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate in MB per second, such as 200")
    return rate
