"""Import offline run folders of W&B: parameters, metrics, GPU energy, code and end of each run.

Folders named offline-run-* are found below each DIR and read by W&B's own package, without a
network. Import all folders of a run together. Repeating an import changes nothing. After an
interruption the same command resumes.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from labcarbon_collect.api.bulk_uploader import UploadError
from labcarbon_collect.api.transport import InvalidUrlError, Transport
from labcarbon_collect.config import Login, data_dir, is_uuid, read_login
from labcarbon_collect.errors import CommandError
from labcarbon_collect.figure_text import energy_text
from labcarbon_collect.node_identity import ConfigurationError
from labcarbon_collect.progress import Progress
from labcarbon_collect.pseudonyms import current_user_name, replace_name, user_names
from labcarbon_collect.wandb.offline_run import OfflineRun, read_run
from labcarbon_collect.wandb.payload import end_facts, run_facts
from labcarbon_collect.wandb.power import GpuEnergy, integrate
from labcarbon_collect.wandb.reader import (
    OfflineFolder,
    ReaderMissing,
    UnreadableFolder,
    check_reader,
    find_folders,
)
from labcarbon_collect.wandb.resume_file import ResumeFile, gpu_spans
from labcarbon_collect.wandb.uploader import RunRefused, RunUploader

_QUIET_S = 24 * 3600  # without a record for so long, a run without an end was interrupted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directories", nargs="+", metavar="DIR", help="folder that contains offline-run-* folders"
    )
    parser.add_argument("--project", help="project that the runs are charged to (its slug)")
    parser.add_argument(
        "--node",
        action="append",
        default=[],
        type=_parse_node,
        metavar="HOST=UUID",
        help="node of the runs of a host: its energy needs one. Can be repeated",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be imported, and send nothing"
    )
    parser.add_argument(
        "--restart",
        action="store_true",
        help="send runs again that an earlier import sent as a whole",
    )


def run(args: argparse.Namespace) -> int:
    try:
        check_reader()
        login = None if args.dry_run else _login()
        user_names(os.environ)  # an invalid setting is an error before anything is read
    except (ReaderMissing, ConfigurationError) as error:
        raise CommandError(str(error)) from error
    roots = [Path(text) for text in args.directories]
    for root in roots:
        if not root.is_dir():
            raise CommandError(f"{root} is no folder")
    folders, broken = find_folders(roots)
    if login is None:
        return _Import(args, None, None).run(folders, broken)
    resume_file = ResumeFile(data_dir(os.environ) / "import-wandb.json", login.url)
    try:
        transport = Transport(login.url, login.token)
    except InvalidUrlError as error:
        raise CommandError(str(error)) from error
    try:
        return _Import(args, RunUploader(transport, notify=_notify), resume_file).run(
            folders, broken
        )
    finally:
        transport.close()


class _Import:
    """One import. Without ``uploader`` it prints what would be sent."""

    def __init__(
        self,
        args: argparse.Namespace,
        uploader: Optional[RunUploader],
        resume_file: Optional[ResumeFile],
    ) -> None:
        self._project, self._nodes = args.project, dict(args.node)
        self._restart = args.restart
        self._uploader, self._resume_file = uploader, resume_file
        self._counts: Counter[str] = Counter()

    def run(self, folders: Sequence[OfflineFolder], broken: Sequence[Tuple[Path, str]]) -> int:
        for path, reason in broken:
            self._report_failure(str(path), reason)
        groups: Dict[str, List[OfflineFolder]] = {}
        for folder in folders:
            groups.setdefault(folder.run_id, []).append(folder)
        progress = Progress("runs")
        try:
            for number, group in enumerate(groups.values(), 1):
                self._import_group(group)
                progress.update(number, number / len(groups))
        except (UploadError, KeyboardInterrupt) as error:
            self._print_counts()
            if isinstance(error, KeyboardInterrupt):
                _notify("Interrupted. The same command resumes from here.")
                raise
            raise CommandError(f"{error}. The same command resumes from there.") from error
        progress.update(len(groups), 1.0, is_final=True)
        self._print_counts()
        return 1 if self._counts["failed"] else 0

    def _import_group(self, group: Sequence[OfflineFolder]) -> None:
        name = str(group[-1].path)
        try:
            files = [folder.state() for folder in group]
            settings = [self._project, sorted(map(list, self._nodes.items()))]
            resume_file = self._resume_file
            if resume_file and not self._restart and resume_file.is_unchanged(files, settings):
                self._counts["sent before"] += 1
                return
            run = read_run(group)
            self._import_run(name, run, [files, settings])
        except (UnreadableFolder, RunRefused, OSError) as error:
            self._report_failure(name, str(error))

    def _import_run(self, name: str, run: OfflineRun, state: List[object]) -> None:
        node = self._nodes.get(run.host)
        end = end_facts(run, is_abandoned=time.time() - run.last_us / 1e6 > _QUIET_S)
        energy = integrate(run.gpu_samples())
        notes = [f"not imported: {text}" for text in run.left_out]
        is_counted = node is not None and end is not None and bool(energy.intervals)
        spans = gpu_spans(run.gpu_samples()) if is_counted else {}
        if energy.intervals and node is None:
            notes.append(f"energy not imported: name the node with --node {run.host}=UUID")
        elif spans and self._resume_file is not None:
            other = self._resume_file.shared_with(run.key, node or "", spans)
            if other is not None:
                notes.append(f"energy not imported: run {other} measured the same GPU meanwhile")
                spans = {}
        if end is None:
            notes.append("it has no end yet: energy and end need a later import")
        facts = _mask_user(run_facts(run, project=self._project, node=node))
        if self._uploader is None:
            self._counts["would be sent"] += 1
            _print_run(name, run, energy, state=end["state"] if end else "running")
        else:
            upload = self._uploader.send(
                run.uuid, facts, run.points, energy if spans else None, end
            )
            notes.extend(upload.warnings)
            self._counts["sent"] += 1
            assert self._resume_file is not None
            self._resume_file.add(
                run.key, state=None if end is None else state, node=node, spans=spans
            )
        for note in notes:
            print(f"  {name}: {note}")

    def _report_failure(self, name: str, reason: str) -> None:
        self._counts["failed"] += 1
        print(f"  {name}: {reason}")

    def _print_counts(self) -> None:
        names = ("sent", "would be sent", "sent before", "failed")
        shown = [f"{self._counts[name]:,} {name}" for name in names if self._counts[name]]
        print(", ".join(shown) or "no folder offline-run-* found")


def _print_run(name: str, run: OfflineRun, energy: GpuEnergy, *, state: str) -> None:
    metrics = len({point[0] for point in run.points})
    print(
        f"{name}: run {run.uuid}, {state}, host {run.host or 'unknown'}, {len(run.config)} "
        f"parameters, {metrics} metrics with {len(run.points):,} points, program "
        f"{run.entry or 'unknown'}, commit {run.commit[:12] or 'unknown'}"
    )
    for gpu, energy_mj in energy.by_gpu.items():
        print(f"  GPU {gpu}: {energy_text(energy_mj)}")
    if energy.gap_us:
        print(f"  {energy.gap_us / 1e6:.0f} s between power samples are gaps and not counted")


def _mask_user(facts: Dict[str, object]) -> Dict[str, object]:
    name = current_user_name()
    public = user_names(os.environ).public_name(name)
    masked: Dict[str, object] = facts if public == name else replace_name(facts, name, public)
    return {**masked, "project": facts["project"], "node": facts["node"]}


def _login() -> Login:
    login = read_login(os.environ)
    if login is None:
        raise CommandError("You are not logged in. Log in with: labcarbon-collect login URL")
    return login


def _parse_node(text: str) -> Tuple[str, str]:
    host, equals, node = text.rpartition("=")
    if not equals or not host or not is_uuid(node):
        raise argparse.ArgumentTypeError(f"{text!r} must have the form HOST=UUID")
    return host, node


def _notify(text: str) -> None:
    print(f"labcarbon: {text}", file=sys.stderr, flush=True)
