"""Options of ``run`` and ``check``, and the run that they describe."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

from labcarbon_collect.config import is_uuid
from labcarbon_collect.errors import CommandError
from labcarbon_collect.fingerprint.arguments import is_multirun
from labcarbon_collect.fingerprint.builder import Survey, survey
from labcarbon_collect.fingerprint.launchers import parse_launch
from labcarbon_collect.runs import facts

INTENTS = ("train", "replicate", "sweep", "ablation", "benchmark", "debug", "service")


def add_arguments(parser: argparse.ArgumentParser) -> argparse.Action:
    """Add the options of both commands. Returns ``--checkpoint``, which has a former name."""
    parser.add_argument(
        "--project", metavar="P", help="slug of the project to which the run is attributed"
    )
    parser.add_argument("--name", metavar="N", help="name of the run (default: the script's name)")
    parser.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="K=V",
        help="a parameter of the run; repeatable",
    )
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="[ROLE=]PATH",
        help="data that the command line does not name; repeatable",
    )
    checkpoint = parser.add_argument(
        "--checkpoint",
        default="",
        metavar="PATH",
        help="checkpoint that the command line does not name",
    )
    parser.add_argument(
        "--intent",
        choices=INTENTS,
        help=(
            "purpose of the run; replicate, sweep and benchmark are never duplicates "
            "(default: train; sweep for Hydra's --multirun)"
        ),
    )
    parser.add_argument("--sweep", default="", metavar="ID", help="the sweep of the run")
    parser.add_argument("--parent", default="", metavar="UUID", help="the parent run")
    parser.add_argument(
        "--enforce", action="store_true", help="do not start a certain duplicate; exit with code 3"
    )
    parser.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        metavar="-- COMMAND …",
        help="the command and its arguments",
    )
    return checkpoint


@dataclass(frozen=True)
class RunSpec:
    """The command and its options."""

    command: List[str]
    project: Optional[str]
    name: Optional[str]
    params: Mapping[str, facts.Value]
    data: Mapping[str, str]
    checkpoint: str
    intent: str
    sweep: str
    parent: Optional[str]
    enforce: bool
    full_command: bool = False
    estimate: Optional[str] = None

    @property
    def title(self) -> str:
        """The run's name: as given, else the script's."""
        return self.name or facts.run_name(self.command)

    def survey(self, seconds: float) -> Survey:
        """Return the fingerprint survey of the command."""
        return survey(
            self.command,
            cwd=os.getcwd(),
            environ=os.environ,
            declared_params=self.params,
            declared_data=self.data,
            declared_start=self.checkpoint,
            intent=self.intent,
            sweep=self.sweep,
            full_command=self.full_command,
            seconds=seconds,
        )

    def extra_facts(self) -> Dict[str, Any]:
        """Return facts of the run besides its command."""
        facts: Dict[str, Any] = {"intent": self.intent}
        if self.sweep:
            facts["sweep"] = self.sweep[:100]
        if self.parent:
            facts["parent"] = self.parent
        if self.estimate:
            facts["estimate"] = self.estimate
        return facts


def parse_spec(args: argparse.Namespace, usage: str) -> RunSpec:
    """Return the run described by the arguments. Raises CommandError."""
    command = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not command:
        raise CommandError(f"No command was given. Usage: {usage}")
    try:
        params = facts.parse_params(args.param)
    except ValueError as error:
        raise CommandError(str(error)) from error
    if args.parent and not is_uuid(args.parent):
        raise CommandError(
            f"--parent {args.parent!r} is not the UUID of a run. Copy it from the run's page"
        )
    estimate = getattr(args, "estimate", "")  # an option of run only
    if estimate and not is_uuid(estimate):
        raise CommandError(
            f"--estimate {estimate!r} is not the UUID of an estimate. Copy it from the planner"
        )
    return RunSpec(
        command,
        args.project,
        args.name,
        params,
        dict(_parse_role_path(item) for item in args.data),
        args.checkpoint,
        args.intent or _intent_of(command),
        args.sweep,
        args.parent or None,
        args.enforce,
        getattr(args, "full_command", False),
        estimate or None,
    )


def _parse_role_path(text: str) -> Tuple[str, str]:
    """Parse ``train=/data/cats`` or a path alone."""
    role, equals, path = text.partition("=")
    return (role, path) if equals and role.isidentifier() and path else ("data", text)


def _intent_of(command: List[str]) -> str:
    """Return the intent of a command without a stated one."""
    return "sweep" if is_multirun(parse_launch(command, os.environ).arguments) else "train"
