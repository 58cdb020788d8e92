"""Page objects of MLflow servers."""

from dataclasses import dataclass

from django.conf import settings

from apps.core.units import US_PER_S
from apps.dashboard.decorators import Visitor
from apps.dashboard.formatting import size
from apps.fleet.models import ACTIVE
from apps.fleet.selectors import TRACKER
from apps.trackers.mlflow.models import MlflowFile, MlflowRun, MlflowSource
from apps.trackers.mlflow.selectors import (
    count_waiting_tags,
    files_of,
    files_waiting,
    problems_of,
    servers_of,
    unreadable_of,
)

MOST_PROBLEMS = 20
MIN_DISPLAYED_SKEW_US = 300 * US_PER_S


@dataclass(frozen=True)
class ServerRow:
    """A server in the list. ``state``: CSS class of the badge. Numbers of runs: imported,
    linked, running, with problems.
    """

    source: MlflowSource
    state: str
    state_label: str
    runs: int
    linked: int
    running: int
    problems: int

    @property
    def skew(self) -> str:
        """Return how its clock differs from the server's, or '' for a small difference."""
        skew_us = self.source.skew_us or 0
        if abs(skew_us) < MIN_DISPLAYED_SKEW_US:
            return ""
        return (
            f"{abs(skew_us) // (60 * US_PER_S)} minutes {'behind' if skew_us > 0 else 'ahead of'}"
        )


@dataclass(frozen=True)
class FilesRow:
    """Files of one outcome."""

    outcome: str
    count: int
    size: str


@dataclass(frozen=True)
class FilesRead:
    """Files of a server's runs. ``left``: files of other kinds; ``runs_waiting``: runs whose
    files are not read.
    """

    rows: list[FilesRow]
    unreadable: list[MlflowFile]
    left: int
    runs_waiting: int


@dataclass(frozen=True)
class ServerPage:
    """One server. ``waiting``: number of verdicts that are not written yet."""

    row: ServerRow
    problems: list[MlflowRun]
    waiting: int
    files: FilesRead
    client: str


def server_rows(visitor: Visitor) -> list[ServerRow]:
    """Return the lab's servers. One query."""
    return [row_of(source) for source in servers_of(visitor.lab)]


def row_of(source: MlflowSource) -> ServerRow:
    """Return the row of a server that a selector has annotated with numbers of runs."""
    state, label = "running", "polled every minute"
    if not source.enabled:
        state, label = "killed", "disabled"
    elif source.problem:
        state, label = "failed", "not responding"
    elif source.succeeded_us is None:
        state, label = "running", "not polled yet"
    counted = vars(source)
    return ServerRow(
        source=source,
        state=state,
        state_label=label,
        runs=counted["imported"],
        linked=counted["linked"],
        running=counted["running"],
        problems=counted["problems"] + counted["verdict_problems"],
    )


def server_page(source: MlflowSource) -> ServerPage:
    """Return one server. A fixed number of queries."""
    return ServerPage(
        row=row_of(source),
        problems=list(problems_of(source, MOST_PROBLEMS)),
        waiting=count_waiting_tags(source),
        files=_files(source),
        client=client_lines(source.address),
    )


def _files(source: MlflowSource) -> FilesRead:
    """Return the files of a server's runs by outcome. Three queries."""
    runs_waiting, left = files_waiting(source)
    rows = [
        FilesRow(str(files.outcome.label), files.count, size(files.bytes))
        for files in files_of(source)
    ]
    return FilesRead(rows, list(unreadable_of(source, MOST_PROBLEMS)), left, runs_waiting)


def initial_values(source: MlflowSource) -> dict[str, str]:
    """Return the values of a server for its form, without its password or token."""
    rows = source.patterns.select_related("project").order_by("position")
    stand_in = TRACKER in source.node.facts
    places = (
        source.node.placements.filter(ACTIVE)
        .order_by("-from_hour")
        .values_list("site_id", flat=True)
    )
    site = places.first() if stand_in else None
    return {
        "name": source.name,
        "address": source.address,
        "sign_in": source.sign_in,
        "user": source.user,
        "patterns": "\n".join(f"{row.pattern} = {row.project.slug}" for row in rows),
        "project": source.project.slug if source.project else "",
        "node": "" if stand_in else str(source.node.uuid),
        "site": str(site or ""),
        "writes_verdicts": "on" if source.writes_verdicts else "",
        "reads_files": "on" if source.reads_files else "",
    }


def client_lines(address: str) -> str:
    """Return the commands that configure the environment of a training script."""
    return (
        "pip install ./collector psutil nvidia-ml-py  # in the folder of LabCarbon\n"
        f"labcarbon-collect login {settings.SITE_URL}\n"
        f"export MLFLOW_TRACKING_URI={address}\n"
        "export MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING=true\n"
    )
