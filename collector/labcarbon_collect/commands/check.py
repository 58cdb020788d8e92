"""Ask whether a command's work was done before, without starting it: labcarbon-collect check -- python train.py --lr 0.1

Exit code 0; with --enforce 3 when it is certain to be in vain. That the server is away is said, and is no error.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any, Dict, List, Optional, Tuple

from labcarbon_collect.api.preflight import Answer
from labcarbon_collect.config import Login, user_login
from labcarbon_collect.files.budget import Budget
from labcarbon_collect.fingerprint.builder import Survey
from labcarbon_collect.identity import Refused
from labcarbon_collect.progress import Progress
from labcarbon_collect.redaction import MASK
from labcarbon_collect.runs import facts, preflight_text
from labcarbon_collect.runs import options as work_options
from labcarbon_collect.runs.background_hash import DigestJob
from labcarbon_collect.runs.options import Work
from labcarbon_collect.runs.startup import IN_VAIN, asked, heard, question_of

_LOOK_S, _ASK_S = 10.0, 10.0  # nothing waits for us here but a person
_USAGE = "labcarbon-collect check -- python train.py"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--digest", action="store_true", help="hash all data first, however long it takes")
    parser.add_argument("--json", action="store_true", help="the fingerprint and the server's answer as JSON")
    work_options.arguments(parser)


def carry_out(options: argparse.Namespace) -> int:
    work = work_options.work_of(options, _USAGE)
    for name in facts.masked_names(work.params):
        _say(f"the parameter {name} looks like a secret: it is told as {MASK}")
    found = work.survey(_LOOK_S)
    if options.digest:
        _hash_all(found)
    answer, why = _ask(work, found)
    if options.json:
        told = {"fingerprint": found.wire, "notes": _notes(found), "answer": answer.body if answer else None, "why": why}
        print(json.dumps(told, indent=2, sort_keys=True))
    else:
        _show(answer, why, found)
    return IN_VAIN if work.enforce and answer is not None and answer.in_vain else 0


def _ask(work: Work, found: Survey) -> Tuple[Optional[Answer], str]:
    login: Optional[Login] = None
    try:
        login = user_login(os.environ)
    except Refused as refused:
        return None, str(refused)
    if login is None:
        return None, "you are not logged in: labcarbon-collect login URL"
    budget = Budget(_ASK_S)
    return heard(asked(login, question_of(work, found), budget), login.url, budget)


def _hash_all(found: Survey) -> None:
    """Hash what is left, in the foreground."""
    if not found.data and not found.start:
        return
    progress = Progress("hashed", are_bytes=True)
    better: Dict[str, Any] = {}
    digest = DigestJob(
        found, os.environ, better.update,
        progress=lambda done, total: progress.show(done, done / total), unbounded=True,
    )  # fmt: skip
    try:
        digest.wait()
    finally:
        digest.end()
    for part, paths in (("data", found.data), ("start", found.start)):
        if part in better:
            found.wire[part] = better[part]
            paths.clear()
    if digest.why:
        found.notes.append(f"the data are not known by content: {digest.why}")


def _show(answer: Optional[Answer], why: str, found: Survey) -> None:
    if answer is None:
        _say(f"nobody was asked whether this was run before: {why}")
    elif answer.worth_saying:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        print("\n".join(preflight_text.lines(answer, colour=colour, prefix="")))
    else:
        known = "Nothing like it was run before." if answer.verdict == "none" else f"Nothing to warn of: {answer.verdict}."
        print(preflight_text.plain(answer.message) or known)
    for note in _notes(found):
        print(f"  {note}")


def _notes(found: Survey) -> List[str]:
    """What is not known, and what would mend it."""
    notes = list(found.notes)
    if "data" not in found.wire and not found.data:
        notes.append("the data are unknown: no argument is a path that exists; name them with --data PATH")
    if found.data:
        notes.append("the data are known by names, sizes and times only; with --digest by content")
    if found.start:
        notes.append("the checkpoint is known by names, sizes and times only; with --digest by content")
    return notes


def _say(text: str) -> None:
    print(f"labcarbon: {text}", file=sys.stderr, flush=True)
