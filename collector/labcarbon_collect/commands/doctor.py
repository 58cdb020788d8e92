"""Check what can be measured on this node. Each problem is listed with its reason and its fix."""

from __future__ import annotations

import argparse
import importlib
import json
import os
from typing import List

from labcarbon_collect import sources
from labcarbon_collect.doctor.base import Check, run_checks

_LABELS = {"ok": "ok    ", "warn": "warn  ", "bad": "BAD   ", "absent": "none  "}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the checks as JSON")


def run(args: argparse.Namespace) -> int:
    sources.load()
    for module in ("meters", "node", "server"):
        importlib.import_module(f"labcarbon_collect.doctor.{module}")
    results = run_checks()
    if args.json:
        print(json.dumps([check.to_json() for check in results], indent=2))
    else:
        print("\n".join(_format_results(results)))
    return 1 if any(check.state == "bad" for check in results) else 0


def _format_results(results: List[Check]) -> List[str]:
    lines = []
    for check in results:
        lines.append(f"{_LABELS[check.state]}{check.name}: {check.summary}")
        if check.fix:
            lines.append(f"      → {check.fix}")
    passed = [check for check in results if check.state == "ok"]
    lines.append(f"{len(passed)} of {len(results)} checks passed on {os.uname().nodename}")
    return lines
