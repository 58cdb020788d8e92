"""The protocol of a tracker: one ``Tracker`` record, and the data that its parts return."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from apps.accounts.models import Lab
from apps.runs.models import Run


@dataclass(frozen=True)
class Page:
    """A page of the dashboard: name of its address, and arguments of the address."""

    url_name: str
    args: tuple[object, ...] = ()


@dataclass(frozen=True)
class Amount:
    """An amount that the tracker reported (mJ or µg CO2e). It is not a figure of the ledger."""

    metric: Literal["energy_mj", "emission_ug"]
    value: int


@dataclass(frozen=True)
class PanelRow:
    """A row of a panel: a label, then an amount or a text (with a link), then a note."""

    label: str
    amount: Amount | None = None
    text: str = ""
    page: Page | None = None
    note: str = ""


@dataclass(frozen=True)
class PanelWarning:
    """A warning below the rows: text, linked page, further text, amount."""

    kind: str
    text: str
    link_text: str = ""
    page: Page | None = None
    text_after: str = ""
    amount: Amount | None = None


@dataclass(frozen=True)
class RunPanel:
    """What a tracker reported about a run, as shown on the page of the run."""

    rows: Sequence[PanelRow]
    warnings: Sequence[PanelWarning] = ()


@dataclass(frozen=True)
class Problem:
    """A problem of a tracker that requires an action. The overview shows it."""

    title: str
    text: str
    page: Page


@dataclass(frozen=True)
class Verdicts:
    """Output of duplicate verdicts to a tracker.

    ``accepts``: returns whether the tracker has this run and accepts verdicts.
    ``queue``: queues a text for the run; '' removes it.
    """

    accepts: Callable[[Run], bool]
    queue: Callable[[Run, str], None]


@dataclass(frozen=True)
class Tracker:
    """An experiment tracker.

    ``name``: name of its folder, and the tool of its external run ids.
    ``setup_text``: sentence before the link to ``setup_page``.
    ``help_topics``: name of each of its pages → section of its document, ``docs/<name>.md``.
    ``run_panel``: returns None if the tracker has no report of the run.
    Functions run a fixed number of queries.
    """

    name: str
    label: str
    setup_page: str = ""
    setup_text: str = ""
    setup_link: str = ""
    help_topics: Mapping[str, str] = field(default_factory=dict)
    run_panel: Callable[[Run], RunPanel | None] | None = None
    problems: Callable[[Lab], Sequence[Problem]] | None = None
    verdicts: Verdicts | None = None
