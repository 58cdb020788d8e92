"""What ``run`` and ``check`` are told of a piece of work, and what they find out about it."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

from labcarbon_collect.config import is_uuid
from labcarbon_collect.errors import Failed
from labcarbon_collect.fingerprint.builder import Survey, survey
from labcarbon_collect.runs import facts

INTENTS = ("train", "replicate", "sweep", "ablation", "benchmark", "debug")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of both commands."""
    parser.add_argument("--project", metavar="P", help="slug of the project to charge")
    parser.add_argument("--name", metavar="N", help="name of the run (default: the script's name)")
    parser.add_argument("--param", action="append", default=[], metavar="K=V", help="a parameter of the run; repeatable")
    parser.add_argument(
        "--data", action="append", default=[], metavar="[ROLE=]PATH",
        help="data that the command line does not name; repeatable",
    )  # fmt: skip
    parser.add_argument("--start", default="", metavar="PATH", help="checkpoint that the command line does not name")
    parser.add_argument(
        "--intent", choices=INTENTS, default="train",
        help="what it is for; replicate, sweep and benchmark are no duplicates (default: train)",
    )  # fmt: skip
    parser.add_argument("--sweep", default="", metavar="ID", help="the sweep that it belongs to")
    parser.add_argument("--parent", default="", metavar="UUID", help="the run that it is part of")
    parser.add_argument(
        "--enforce", action="store_true", help="stop with exit code 3, before it starts, what is certain to be in vain"
    )
    parser.add_argument("work", nargs=argparse.REMAINDER, metavar="-- COMMAND …", help="the command and its arguments")


@dataclass(frozen=True)
class Work:
    """The command and what was said of it."""

    command: List[str]
    project: Optional[str]
    name: Optional[str]
    params: Mapping[str, facts.Value]
    data: Mapping[str, str]
    start: str
    intent: str
    sweep: str
    parent: Optional[str]
    enforce: bool
    tell_all: bool = False

    @property
    def title(self) -> str:
        """The run's name: as given, else the script's."""
        return self.name or facts.run_name(self.command)

    def survey(self, seconds: float) -> Survey:
        """Its fingerprint."""
        return survey(
            self.command, cwd=os.getcwd(), environ=os.environ, declared_params=self.params, declared_data=self.data,
            declared_start=self.start, intent=self.intent, sweep=self.sweep, tell_all=self.tell_all, seconds=seconds,
        )  # fmt: skip

    def beside(self) -> Dict[str, Any]:
        """What the run's facts hold beside its command."""
        told: Dict[str, Any] = {"intent": self.intent}
        if self.sweep:
            told["sweep"] = self.sweep[:100]
        if self.parent:
            told["parent"] = self.parent
        return told


def work_of(options: argparse.Namespace, usage: str) -> Work:
    """What was asked. Raises Failed."""
    command = options.work[1:] if options.work[:1] == ["--"] else options.work
    if not command:
        raise Failed(f"no command was given: {usage}")
    try:
        params = facts.parse_params(options.param)
    except ValueError as error:
        raise Failed(str(error)) from error
    if options.parent and not is_uuid(options.parent):
        raise Failed(f"--parent {options.parent!r} is not the UUID of a run, as its page shows it")
    return Work(
        command, options.project, options.name, params, dict(_role(each) for each in options.data), options.start,
        options.intent, options.sweep, options.parent or None, options.enforce, getattr(options, "argv", False),
    )  # fmt: skip


def _role(given: str) -> Tuple[str, str]:
    """``train=/data/cats`` or a path alone."""
    role, equals, path = given.partition("=")
    return (role, path) if equals and role.isidentifier() and path else ("data", given)
