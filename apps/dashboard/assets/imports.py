"""Bringing assets in: a file as it was read, and what collectors saw."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from apps.accounts.models import Lab
from apps.assets.choices import ImportState
from apps.assets.discovery import MACHINES, Proposal, proposals
from apps.assets.models import Asset, RegisterImport
from apps.assets.services.confirm_discovered import Selection
from apps.assets.services.csv_import import PREVIEW_LINES
from apps.assets.services.validation import HOURS_PER_YEAR
from apps.assets.spreadsheets import cells
from apps.assets.spreadsheets.formats import OWN
from apps.catalog.choices import HardwareKind
from apps.catalog.packs import loaded_packs
from apps.core.errors import InvalidInput
from apps.core.text import parse_record_number
from apps.dashboard.figures import Projected
from apps.dashboard.formatting import Unit, exact, format_value, grouped, unit_for

NOT_KNOWN = Projected("", "", "", "not known", at_least=False)
WAYS = {"model": "its model", "category": "its kind alone", "file": "as the file says", "": "not known"}
KINDS = dict(HardwareKind.choices)


def embodied(value_ug: int | None, unit: Unit | None = None, *, at_least: bool = False) -> Projected:
    """Return embodied carbon that is not recorded yet. None is unknown, which is not zero."""
    if value_ug is None:
        return NOT_KNOWN
    unit = unit or unit_for("emission_ug", [value_ug])
    return Projected(format_value(value_ug, unit), unit.name, exact(value_ug, "emission_ug"), "", at_least)


@dataclass(frozen=True)
class ImportRow:
    """A line as read: what it becomes, with its range, or what is wrong."""

    line: int
    outcome: str
    name: str
    kind: str
    model: str
    way: str
    why: str
    value: Projected
    low: Projected | None
    high: Projected | None
    asset_id: int | None
    message: str
    field: str
    hint: str


@dataclass(frozen=True)
class ImportPage:
    """An import as its page shows it. ``shown``: how many of its lines stand below."""

    row: RegisterImport
    busy: bool
    counts: dict[str, int]
    ways: list[tuple[str, int]]
    total: Projected
    unit: Unit
    rows: list[ImportRow]
    wrong: list[ImportRow]
    more: str
    progress: str
    packs: list[str]


def import_page(row: RegisterImport) -> ImportPage:
    """Return the page of an import."""
    report: dict[str, Any] = row.told
    listed = report.get("rows", [])
    unit = unit_for("emission_ug", [each["embodied_ug"] or 0 for each in listed], column=True)
    by: dict[str, int] = report.get("by", {})
    return ImportPage(
        row=row, busy=row.state in {ImportState.READING, ImportState.WRITING},
        counts={name: report.get("counts", {}).get(name, 0) for name in ("new", "known", "left_out", "wrong")},
        ways=[(words, by[key or "unknown"]) for key, words in WAYS.items() if by.get(key or "unknown")],
        total=embodied(report.get("total_ug"), at_least=bool(by.get("unknown"))),
        unit=unit, rows=[_row(each, unit) for each in listed],
        wrong=[_row(each, unit) for each in report.get("wrong", [])],
        more=grouped(row.lines - PREVIEW_LINES) if row.lines > PREVIEW_LINES else "",
        progress=f"{grouped(row.lines_done)} of {grouped(row.lines)} lines",
        packs=loaded_packs() if by.get("model") or by.get("category") else [],
    )  # fmt: skip


def _row(line: Mapping[str, Any], unit: Unit) -> ImportRow:
    ranged = line["low_ug"] is not None and line["high_ug"] is not None
    return ImportRow(
        line=line["line"], outcome=line["outcome"], name=line["name"], kind=KINDS.get(line["kind"], ""),
        model=line["model"], way=WAYS.get(line["by"], ""), why=line["why"], value=embodied(line["embodied_ug"], unit),
        low=embodied(line["low_ug"], unit) if ranged else None, high=embodied(line["high_ug"], unit) if ranged else None,
        asset_id=line["asset"], message=line["message"], field=line["field"], hint=line["hint"],
    )  # fmt: skip


COLUMNS = ", ".join(OWN)


@dataclass(frozen=True)
class DiskLine:
    """Built-in disks of one model: told, not proposed. ``each``: what the catalogue says of one."""

    number: int
    name: str
    each: Projected


@dataclass(frozen=True)
class Line:
    """A proposal as its form shows it: the day it was bought, its life in years."""

    proposal: Proposal
    kind: str
    value: Projected
    low: Projected | None
    high: Projected | None
    way: str
    bought_on: str
    life_years: str
    selected: str
    must_choose: bool
    disks: list[DiskLine]

    @property
    def indented(self) -> bool:
        return self.proposal.device is not None


@dataclass(frozen=True)
class DiscoveredPage:
    """What collectors saw and no asset is metered by, and what somebody dismissed."""

    lines: list[Line]
    dismissed: list[Proposal]
    projects: list[tuple[str, str]]
    machines: list[tuple[str, str]]
    unit: Unit
    nothing_enrolled: bool

    @property
    def packs(self) -> set[str]:
        known_matches = [line.proposal.known for line in self.lines]
        known_matches += [disk.known for line in self.lines for disk in line.proposal.disks]
        return {each.embodied.figure.pack for each in known_matches if each.embodied and each.embodied.figure}


def discovered_page(*, lab: Lab, zone: ZoneInfo, typed: Mapping[str, str] | None = None) -> DiscoveredPage:
    """Return the page of proposals, with what was typed where that was refused."""
    all_proposals = proposals(lab)
    open_ones = [each for each in all_proposals if not each.dismissed]
    values = [each.known.embodied.total_ug for each in open_ones if each.known.embodied]
    unit = unit_for("emission_ug", values, column=True)
    return DiscoveredPage(
        lines=[_line(each, unit, zone, typed or {}) for each in open_ones],
        dismissed=[each for each in all_proposals if each.dismissed],
        projects=list(lab.projects.order_by("name").values_list("slug", "name")),
        machines=[(kind, KINDS[kind]) for kind in MACHINES], unit=unit,
        nothing_enrolled=not all_proposals and not lab.nodes.filter(virtual=False).exists(),
    )  # fmt: skip


def _line(proposal: Proposal, unit: Unit, zone: ZoneInfo, typed: Mapping[str, str]) -> Line:
    known, key = proposal.known, proposal.key
    what = known.embodied
    day = datetime.fromtimestamp(proposal.since_us // 1_000_000, tz=UTC).astimezone(zone).date().isoformat()
    ranged = what is not None and what.low_ug is not None and what.high_ug is not None
    same = str(proposal.same.pk) if proposal.same else ""
    must_choose = not proposal.same and bool(proposal.like)
    return Line(
        proposal, KINDS[proposal.kind], embodied(what.total_ug if what else None, unit),
        embodied(what.low_ug, unit) if what and ranged else None, embodied(what.high_ug, unit) if what and ranged else None,
        WAYS[known.by], typed.get(f"bought_on:{key}", day),
        typed.get(f"life:{key}", f"{proposal.life_hours / HOURS_PER_YEAR:g}"),
        typed.get(f"as:{key}", same or ("" if must_choose else "new")), must_choose,
        [
            DiskLine(disk.number, disk.name, embodied(disk.known.embodied.total_ug if disk.known.embodied else None))
            for disk in proposal.disks
        ],
    )  # fmt: skip


def selections_of(*, lab: Lab, typed: Mapping[str, str], keys: list[str], zone: ZoneInfo) -> list[Selection]:
    """Return what a form confirms. Raises InvalidInput naming the field."""
    projects = {project.slug: project for project in lab.projects.all()}
    targets = {key: typed.get(f"as:{key}", "new") for key in keys}
    numbers = [number for text in targets.values() if (number := parse_record_number(text)) is not None]
    assets = {str(asset.pk): asset for asset in Asset.objects.filter(lab=lab, pk__in=numbers)}
    selections = []
    for key, which in targets.items():
        if which != "new" and which not in assets:
            raise InvalidInput(
                "Is this a new asset, or one of the register?", field="as",
                hint="Choose for each ticked line: what the register holds already would else be counted twice.",
            )  # fmt: skip
        slug = typed.get("owner", "")
        if slug and slug not in projects:
            raise InvalidInput("There is no such project in this lab.", field="owner", hint="Choose one of the list.")
        bought_us = cells.moment_us(typed.get(f"bought_on:{key}", "").strip(), "bought_on", zone)
        life_hours = cells.life_hours(typed.get(f"life:{key}", "").strip().replace(",", "."), "life")
        selections.append(
            Selection(key, bought_us, life_hours, projects.get(slug), typed.get(f"kind:{key}", ""), assets.get(which))
        )
    return selections
