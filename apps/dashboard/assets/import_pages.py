"""Contents of the import pages: preview of a file, and discovered hardware."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.forms import BoundField
from django.urls import reverse

from apps.accounts.models import Lab
from apps.assets.choices import AssetState, EndOfLife, ImportState
from apps.assets.discovery import Proposal
from apps.assets.import_progress import permille_of
from apps.assets.models import RegisterImport
from apps.assets.services.csv_import import PREVIEW_LINES
from apps.assets.services.file_columns import EXAMPLES, Questions, proposed, questions_about
from apps.assets.spreadsheets.cells import MILLION
from apps.assets.spreadsheets.formats import OWN
from apps.assets.spreadsheets.rows import Options
from apps.catalog.choices import HardwareKind
from apps.catalog.packs import loaded_packs
from apps.dashboard.assets.forms.csv_import import ProposalFields, RegisterDiscoveredForm
from apps.dashboard.figures import Projected
from apps.dashboard.formatting import Unit, exact, format_value, grouped, percent, unit_for
from apps.dashboard.forms import PageForm

UNKNOWN = Projected("", "", "", "unknown", at_least=False)
SOURCES = {
    "model": "the model",
    "category": "the category",
    "file": "the file",
    "unknown": "unknown",
}
KINDS = dict(HardwareKind.choices)
STATES = dict(AssetState.choices)


def embodied(
    value_ug: int | None, unit: Unit | None = None, *, at_least: bool = False
) -> Projected:
    """Return embodied carbon that is not recorded yet. None is unknown, which is not zero."""
    if value_ug is None:
        return UNKNOWN
    unit = unit or unit_for("emission_ug", [value_ug])
    return Projected(
        format_value(value_ug, unit), unit.name, exact(value_ug, "emission_ug"), "", at_least
    )


@dataclass(frozen=True)
class ImportRow:
    """A row of a file: the new asset with its range, or the error."""

    line: int
    outcome: str
    name: str
    kind: str
    model: str
    source: str
    reason: str
    value: Projected
    low: Projected | None
    high: Projected | None
    asset_id: int | None
    message: str
    field: str
    hint: str
    changes: list[dict[str, str]]
    items: int
    is_default: bool
    bought_on: str
    ended_on: str
    ending: str
    lease: str
    price: str
    owner: str
    state: str
    capacity: str
    remarks: list[str]


@dataclass(frozen=True)
class EmbodiedSource:
    """Number of rows whose embodied carbon has one source."""

    key: str
    label: str
    number: int


@dataclass(frozen=True)
class ImportPage:
    """An import on its page. ``unit``: that of the listed figures, '' if there is none. ``more``:
    number of rows that are not shown.
    """

    row: RegisterImport
    busy: bool
    counts: dict[str, int]
    embodied_sources: list[EmbodiedSource]
    total: Projected
    unit: str
    rows: list[ImportRow]
    wrong: list[ImportRow]
    more: str
    percent: int | None
    packs: list[str]
    default_percent: str
    default_total: Projected

    @property
    def can_confirm(self) -> bool:
        return bool(self.counts["new"] or self.counts["changed"])


def undo_address(row: RegisterImport) -> str:
    """Return the page of the undo that runs."""
    name = "asset-import-redo" if row.state == ImportState.REDOING else "asset-import-undo"
    return reverse(name, args=[row.uuid])


def percent_of(row: RegisterImport) -> int | None:
    """Return how far the job of an import is, None if that is unknown."""
    permille = permille_of(row.uuid)
    if permille is None and row.state == ImportState.READING:
        permille = 1000 * row.lines_done // max(row.lines, 1)
    return None if permille is None else permille // 10


def import_page(row: RegisterImport) -> ImportPage:
    """Return the page of an import."""
    report: dict[str, Any] = row.summary
    listed = report.get("rows", [])
    known = [row_["embodied_ug"] for row_ in listed if row_["embodied_ug"] is not None]
    unit = unit_for("emission_ug", known, column=True)
    by: dict[str, int] = report.get("by", {})
    return ImportPage(
        row=row,
        busy=row.state in {ImportState.READING, ImportState.WRITING},
        counts={
            name: report.get("counts", {}).get(name, 0)
            for name in ("new", "changed", "known", "left_out", "wrong")
        },
        embodied_sources=[
            EmbodiedSource(key, label, by[key]) for key, label in SOURCES.items() if by.get(key)
        ],
        total=embodied(report.get("total_ug"), at_least=bool(by.get("unknown"))),
        unit=unit.name if known else "",
        rows=[_row(row_, unit) for row_ in listed],
        wrong=[_row(row_, unit) for row_ in report.get("wrong", [])],
        more=grouped(row.lines - PREVIEW_LINES) if row.lines > PREVIEW_LINES else "",
        percent=percent_of(row),
        packs=loaded_packs() if by.get("model") or by.get("category") else [],
        default_percent=percent(report.get("default_ug") or 0, report.get("total_ug") or 0),
        default_total=embodied(report.get("default_ug")),
    )


def _row(line: Mapping[str, Any], unit: Unit) -> ImportRow:
    has_range = line["low_ug"] is not None and line["high_ug"] is not None
    return ImportRow(
        line=line["line"],
        outcome=line["outcome"],
        name=line["name"],
        kind=KINDS.get(line["kind"], ""),
        model=line["model"],
        source=SOURCES.get(line["by"] or "unknown", ""),
        reason=line["why"],
        value=embodied(line["embodied_ug"], unit),
        low=embodied(line["low_ug"], unit) if has_range else None,
        high=embodied(line["high_ug"], unit) if has_range else None,
        asset_id=line["asset"],
        message=line["message"],
        field=line["field"],
        hint=line["hint"],
        changes=labelled(line.get("changes", [])),
        items=line.get("items", 1),
        is_default=line.get("is_default", False),
        bought_on=line.get("bought_on", ""),
        ended_on=line.get("ended_on", ""),
        ending=_ending(line),
        lease=_lease(line),
        price=_price(line.get("price_ucurrency"), line.get("currency", "")),
        owner=line.get("owner", ""),
        state=STATES.get(line.get("state", ""), ""),
        capacity=_capacity(line.get("capacity_gb")),
        remarks=[
            remark["text"]
            for remark in line.get("remarks", [])
            if remark["code"] not in {"default", "unknown", "quantity"}
        ],
    )


def _ending(line: Mapping[str, Any]) -> str:
    """Return how the asset left the lab."""
    kind, mass_g = line.get("end_of_life", ""), line.get("mass_g")
    parts = (
        EndOfLife(kind).label.lower() if kind else "",
        "" if mass_g is None else f"{mass_g / 1000:g}\u00a0kg",
        f"to {line['recipient']}" if line.get("recipient") else "",
    )
    return ", ".join(part for part in parts if part)


def _lease(line: Mapping[str, Any]) -> str:
    if not line.get("is_leased"):
        return ""
    return f"leased from {line['lessor']}" if line.get("lessor") else "leased"


_LABELS = {
    "bought_on": "purchase date",
    "retired_on": "taken out of use",
    "end_of_life_emissions": "end-of-life emissions",
}


def labelled(changes: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Return changed values with the label of their field."""
    return [
        {**change, "label": _LABELS.get(change["field"], change["field"].replace("_", " "))}
        for change in changes
    ]


def _price(ucurrency: int | None, currency: str) -> str:
    if ucurrency is None:
        return ""
    return f"{Decimal(ucurrency) / MILLION:,.2f}".replace(",", "\u202f") + f"\u00a0{currency}"


def _capacity(gigabytes: int | None) -> str:
    if gigabytes is None:
        return ""
    if gigabytes < 1000:
        return f"{gigabytes}\u00a0GB"
    return f"{Decimal(gigabytes) / 1000:f}".rstrip("0").rstrip(".") + "\u00a0TB"


@dataclass(frozen=True)
class MappingRow:
    """A column of a file on the mapping page."""

    heading: str
    examples: list[str]
    field: BoundField


@dataclass(frozen=True)
class MappingPage:
    """The columns of a file, and what is proposed for them."""

    row: RegisterImport
    questions: Questions
    proposal: dict[str, str]

    @property
    def is_first(self) -> bool:
        """Return whether the file was not read yet."""
        return self.row.state == ImportState.MAPPING

    def rows(self, fields: Sequence[BoundField]) -> list[MappingRow]:
        pairs = zip(self.questions.header.columns, self.questions.examples, fields, strict=True)
        return [
            MappingRow(
                column.heading or "(no heading)", list(dict.fromkeys(cells))[:EXAMPLES], field
            )
            for column, cells, field in pairs
            if column.heading or cells
        ]


def mapping_page(row: RegisterImport) -> MappingPage:
    """Return the columns of an import that is not registered."""
    questions = questions_about(row.content, Options(**row.options))
    return MappingPage(row, questions, proposed(row.lab, questions))


COLUMNS = ", ".join(OWN)


@dataclass(frozen=True)
class DiskLine:
    """Built-in disks of one model, for information. ``unit_value``: the catalogue's figure of
    one disk.
    """

    number: int
    name: str
    unit_value: Projected


@dataclass(frozen=True)
class Line:
    """A proposal on the page. ``fields``: its form fields, for visitors who may register it."""

    proposal: Proposal
    kind: str
    value: Projected
    low: Projected | None
    high: Projected | None
    disks: list[DiskLine]
    fields: ProposalFields | None

    @property
    def indented(self) -> bool:
        return self.proposal.device is not None


@dataclass(frozen=True)
class DiscoveredPage:
    """Hardware that collectors discovered and no asset is metered by, and dismissed proposals."""

    lines: list[Line]
    dismissed: list[Proposal]
    unit: Unit
    nothing_enrolled: bool

    @property
    def packs(self) -> set[str]:
        matches = [line.proposal.known for line in self.lines]
        matches += [disk.known for line in self.lines for disk in line.proposal.disks]
        return {
            match.embodied.figure.pack
            for match in matches
            if match.embodied and match.embodied.figure
        }


def discovered_page(
    *, lab: Lab, all_proposals: Sequence[Proposal], form: PageForm | None
) -> DiscoveredPage:
    """Return the page of proposals. ``form`` has fields for each of them."""
    open_proposals = [proposal for proposal in all_proposals if not proposal.dismissed]
    values = [
        proposal.known.embodied.total_ug for proposal in open_proposals if proposal.known.embodied
    ]
    unit = unit_for("emission_ug", values, column=True)
    return DiscoveredPage(
        lines=[_line(proposal, unit, form) for proposal in open_proposals],
        dismissed=[proposal for proposal in all_proposals if proposal.dismissed],
        unit=unit,
        nothing_enrolled=not all_proposals and not lab.nodes.filter(virtual=False).exists(),
    )


def _line(proposal: Proposal, unit: Unit, form: PageForm | None) -> Line:
    what = proposal.known.embodied
    has_range = what is not None and what.low_ug is not None and what.high_ug is not None
    return Line(
        proposal=proposal,
        kind=KINDS[proposal.kind],
        value=embodied(what.total_ug if what else None, unit),
        low=embodied(what.low_ug, unit) if what and has_range else None,
        high=embodied(what.high_ug, unit) if what and has_range else None,
        disks=[
            DiskLine(
                disk.number,
                disk.name,
                embodied(disk.known.embodied.total_ug if disk.known.embodied else None),
            )
            for disk in proposal.disks
        ],
        fields=form.fields_of(proposal) if isinstance(form, RegisterDiscoveredForm) else None,
    )
