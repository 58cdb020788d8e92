"""MLflow servers and what to write into a client's shell: what their pages show."""

from dataclasses import dataclass

from django.conf import settings
from django.db.models import QuerySet

from apps.accounts.models import Project
from apps.core.units import US_PER_S
from apps.dashboard.decorators import Visitor
from apps.dashboard.formatting import size
from apps.fleet.models import ACTIVE, Node, Site
from apps.fleet.selectors import TRACKER, measured_nodes, sites_of
from apps.trackers.choices import SignIn
from apps.trackers.mlflow.selectors import (
    count_waiting_tags,
    files_of,
    files_waiting,
    problems_of,
    servers_of,
    unreadable_of,
)
from apps.trackers.models import MlflowFile, MlflowRun, MlflowSource

MOST_PROBLEMS = 20
SKEW_TOLD_US = 300 * US_PER_S


@dataclass(frozen=True)
class ServerRow:
    """A server as shown. ``state``: class of its badge; ``runs``, ``problems``: how many."""

    source: MlflowSource
    state: str
    words: str
    runs: int
    joined: int
    going_on: int
    problems: int

    @property
    def skew(self) -> str:
        """How its clock stands to ours, in words; '' where that is no matter."""
        skew_us = self.source.skew_us or 0
        if abs(skew_us) < SKEW_TOLD_US:
            return ""
        return f"{abs(skew_us) // (60 * US_PER_S)} minutes {'behind' if skew_us > 0 else 'ahead of'}"


@dataclass(frozen=True)
class Choices:
    """What can be chosen in the form of a server."""

    projects: QuerySet[Project]
    nodes: QuerySet[Node]
    sites: QuerySet[Site]
    sign_ins: list[tuple[str, str]]


@dataclass(frozen=True)
class FilesRow:
    """Files of one outcome, in words."""

    words: str
    count: int
    size: str


@dataclass(frozen=True)
class FilesRead:
    """What became of the files of a server's runs. ``left``: files that are none that are read; ``runs_waiting``: runs."""

    rows: list[FilesRow]
    unreadable: list[MlflowFile]
    left: int
    runs_waiting: int


@dataclass(frozen=True)
class ServerPage:
    """One server, what was not taken of it, and its form as it stands."""

    row: ServerRow
    choices: Choices
    problems: list[MlflowRun]
    waiting: int
    files: FilesRead
    typed: dict[str, str]
    client: str


def choices(visitor: Visitor) -> Choices:
    """Return what can be chosen. The queries are asked where they are shown."""
    return Choices(
        projects=Project.objects.filter(lab=visitor.lab).order_by("name", "id"),
        nodes=measured_nodes(visitor.lab),
        sites=sites_of(visitor.lab),
        sign_ins=[(choice.value, choice.label) for choice in SignIn],
    )


def server_rows(visitor: Visitor) -> list[ServerRow]:
    """Return the lab's servers. One query."""
    return [row_of(source) for source in servers_of(visitor.lab)]


def row_of(source: MlflowSource) -> ServerRow:
    """Return a server, as counted by the selectors, as shown."""
    state, words = "running", "read every minute"
    if not source.enabled:
        state, words = "killed", "switched off"
    elif source.problem:
        state, words = "failed", "does not answer"
    elif source.succeeded_us is None:
        state, words = "running", "not read yet"
    counted = vars(source)
    return ServerRow(
        source=source, state=state, words=words, runs=counted["taken"], joined=counted["joined"],
        going_on=counted["going_on"], problems=counted["problems"] + counted["untold"],
    )  # fmt: skip


def server_page(visitor: Visitor, source: MlflowSource) -> ServerPage:
    """Return one server. A fixed number of queries."""
    return ServerPage(
        row=row_of(source),
        choices=choices(visitor),
        problems=list(problems_of(source, MOST_PROBLEMS)),
        waiting=count_waiting_tags(source),
        files=_files(source),
        typed=typed_of(source),
        client=client_lines(source.address),
    )


def _files(source: MlflowSource) -> FilesRead:
    """Return what became of the files of a server's runs. Three queries."""
    runs_waiting, left = files_waiting(source)
    rows = [FilesRow(str(each.outcome.label), each.count, size(each.bytes)) for each in files_of(source)]
    return FilesRead(rows, list(unreadable_of(source, MOST_PROBLEMS)), left, runs_waiting)


def typed_of(source: MlflowSource) -> dict[str, str]:
    """Return a server as its form shows it; never its password."""
    rows = source.patterns.select_related("project").order_by("position")
    stand_in = TRACKER in source.node.facts
    places = source.node.placements.filter(ACTIVE).order_by("-from_hour").values_list("site_id", flat=True)
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
        "verdicts": "on" if source.writes_verdicts else "",
        "files": "on" if source.reads_files else "",
    }


def client_lines(address: str) -> str:
    """Return what a researcher writes once, in the environment in which their script runs."""
    return (
        "pip install ./collector psutil nvidia-ml-py  # in the folder of LabCarbon\n"
        f"labcarbon-collect login {settings.SITE_URL}\n"
        f"export MLFLOW_TRACKING_URI={address}\n"
        "export MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING=true\n"
    )
