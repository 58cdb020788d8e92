"""Options of ``run`` and ``check``, and the run that they describe."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

from labcarbon_collect.config import is_uuid
from labcarbon_collect.errors import CommandError
from labcarbon_collect.fingerprint.builder import Survey, survey
from labcarbon_collect.runs import facts

INTENTS = ("train", "replicate", "sweep", "ablation", "benchmark", "debug")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of both commands."""
    parser.add_argument("--project", metavar="P", help="slug of the project to charge")
    parser.add_argument("--name", metavar="N", help="name of the run (default: the script's name)")
    parser.add_argument("--param", action="append", default=[], metavar="K=V", help="a parameter of the run; repeatable")
    parser.add_argument(
        "--data", action="append", default=[], metavar="[ROLE=]PATH",
        help="data that the command line does not name; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--start", dest="checkpoint", default="", metavar="PATH", help="checkpoint that the command line does not name"
    )
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
        return facts


def parse_spec(options: argparse.Namespace, usage: str) -> RunSpec:
    """Return the run described by the arguments. Raises CommandError."""
    command = options.work[1:] if options.work[:1] == ["--"] else options.work
    if not command:
        raise CommandError(f"no command was given: {usage}")
    try:
        params = facts.parse_params(options.param)
    except ValueError as error:
        raise CommandError(str(error)) from error
    if options.parent and not is_uuid(options.parent):
        raise CommandError(f"--parent {options.parent!r} is not the UUID of a run, as its page shows it")
    return RunSpec(
        command,
        options.project,
        options.name,
        params,
        dict(_parse_role_path(item) for item in options.data),
        options.checkpoint,
        options.intent,
        options.sweep,
        options.parent or None,
        options.enforce,
        getattr(options, "argv", False),
    )


def _parse_role_path(text: str) -> Tuple[str, str]:
    """Parse ``train=/data/cats`` or a path alone."""
    role, equals, path = text.partition("=")
    return (role, path) if equals and role.isidentifier() and path else ("data", text)
