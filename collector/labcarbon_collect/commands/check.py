"""Check whether a command repeats an earlier run, without starting it.

Example: labcarbon-collect check -- python train.py --lr 0.1
The exit code is 0, or 3 for a certain duplicate with --enforce. An unavailable server is reported
but is not an error.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any, Dict, List, Optional, Tuple

from labcarbon_collect.api.preflight import PreflightResponse
from labcarbon_collect.commands import add_alias
from labcarbon_collect.config import Login, read_login
from labcarbon_collect.files.read_limits import Budget
from labcarbon_collect.fingerprint.builder import Survey
from labcarbon_collect.node_identity import ConfigurationError
from labcarbon_collect.progress import Progress
from labcarbon_collect.redaction import MASK
from labcarbon_collect.runs import facts, preflight_text
from labcarbon_collect.runs import options as work_options
from labcarbon_collect.runs.background_hash import BackgroundHash
from labcarbon_collect.runs.options import RunSpec
from labcarbon_collect.runs.startup import (
    EXIT_BLOCKED,
    await_reply,
    preflight_request,
    start_preflight,
)

_SURVEY_S, _PREFLIGHT_S = 10.0, 10.0  # no command is delayed
_USAGE = "labcarbon-collect check -- python train.py"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    hash_data = parser.add_argument(
        "--hash-data", action="store_true", help="hash all data first, regardless of the time"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the fingerprint and the server's response as JSON",
    )
    checkpoint = work_options.add_arguments(parser)
    add_alias(parser, "--digest", hash_data)
    add_alias(parser, "--start", checkpoint)


def run(args: argparse.Namespace) -> int:
    spec = work_options.parse_spec(args, _USAGE)
    for name in facts.masked_params(spec.params):
        _notify(f"The parameter {name} looks like a secret. It is sent as {MASK}")
    survey = spec.survey(_SURVEY_S)
    if args.hash_data:
        _hash_data(survey)
    response, error = _check_duplicates(spec, survey)
    if args.json:
        report = {
            "fingerprint": survey.wire,
            "notes": _notes(survey),
            "answer": response.body if response else None,
            "why": error,
        }
        print(json.dumps(report, indent=2, sort_keys=True))
    else:
        _print_result(response, error, survey)
    return EXIT_BLOCKED if spec.enforce and response is not None and response.is_blocking else 0


def _check_duplicates(spec: RunSpec, survey: Survey) -> Tuple[Optional[PreflightResponse], str]:
    login: Optional[Login] = None
    try:
        login = read_login(os.environ)
    except ConfigurationError as refused:
        return None, str(refused)
    if login is None:
        return None, "you are not logged in. Log in with: labcarbon-collect login URL"
    budget = Budget(_PREFLIGHT_S)
    return await_reply(
        start_preflight(login, preflight_request(spec, survey), budget), login.url, budget
    )


def _hash_data(survey: Survey) -> None:
    """Hash the remaining data in the foreground."""
    if not survey.data and not survey.start:
        return
    progress = Progress("hashed", counts_bytes=True)
    fingerprint_parts: Dict[str, Any] = {}
    background_hash = BackgroundHash(
        survey,
        os.environ,
        fingerprint_parts.update,
        on_progress=lambda done, total: progress.update(done, done / total),
        is_unbounded=True,
    )
    try:
        background_hash.wait()
    finally:
        background_hash.stop()
    for part, paths in (("data", survey.data), ("start", survey.start)):
        if part in fingerprint_parts:
            survey.wire[part] = fingerprint_parts[part]
            paths.clear()
    if background_hash.error:
        survey.notes.append(f"Data compared by name, size and time only: {background_hash.error}")


def _print_result(response: Optional[PreflightResponse], error: str, survey: Survey) -> None:
    if response is None:
        _notify(f"Duplicate check skipped: {error}")
    elif response.is_notable:
        colour = (
            sys.stdout.isatty()
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM") != "dumb"
        )
        lines = preflight_text.format_response(
            response, colour=colour, prefix="", local_values=survey.local_values
        )
        print("\n".join(lines))
    else:
        is_data_known = "data" in survey.wire or bool(survey.data)
        default_message = (
            f"No warning: {response.verdict}."
            if response.verdict != "none"
            else "No similar run exists."
            if is_data_known
            else "The data is unknown, so the run is not compared."
        )
        print(preflight_text.plain(response.message) or default_message)
    for note in _notes(survey):
        print(f"  {note}")


def _notes(survey: Survey) -> List[str]:
    """Return what is unknown and how to change that."""
    notes = list(survey.notes)
    if "data" not in survey.wire and not survey.data:
        notes.append(
            "Data unknown: no argument is an existing path. Name the data with --data PATH"
        )
    if survey.data:
        notes.append("Data compared by name, size and time only. With --hash-data: by content")
    if survey.start:
        notes.append(
            "Checkpoint compared by name, size and time only. With --hash-data: by content"
        )
    return notes


def _notify(text: str) -> None:
    print(f"labcarbon: {text}", file=sys.stderr, flush=True)
