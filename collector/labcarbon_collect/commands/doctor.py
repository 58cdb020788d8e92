"""Say what can be measured on this machine and what not, why, and the one line that mends it."""

from __future__ import annotations

import argparse
import importlib
import json
import os
from dataclasses import asdict
from typing import List

from labcarbon_collect import sources
from labcarbon_collect.doctor.base import Check, run_checks

_MARK = {"ok": "ok    ", "warn": "warn  ", "bad": "BAD   ", "absent": "none  "}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for programs")


def run(args: argparse.Namespace) -> int:
    sources.load()
    for module in ("meter_checks", "machine_checks", "server_checks"):
        importlib.import_module(f"labcarbon_collect.{module}")
    answers = run_checks()
    if args.json:
        print(json.dumps([asdict(check) for check in answers], indent=2))
    else:
        print("\n".join(_lines(answers)))
    return 1 if any(check.state == "bad" for check in answers) else 0


def _lines(answers: List[Check]) -> List[str]:
    lines = []
    for check in answers:
        lines.append(f"{_MARK[check.state]}{check.name}: {check.what}")
        if check.mend:
            lines.append(f"      → {check.mend}")
    measured = [check for check in answers if check.state == "ok"]
    lines.append(f"{len(measured)} of {len(answers)} fine on {os.uname().nodename}")
    return lines
