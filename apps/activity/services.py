"""Import of declared use without a collector. It uses the same ledger, factors and explanations."""

import csv
import hashlib
from collections.abc import Iterable
from uuid import NAMESPACE_URL, UUID, uuid5

from django.db import transaction

from apps.accounts.models import Lab
from apps.accounts.selectors import project_by_slug
from apps.activity.declared_rows import COLUMNS, DeclaredRow, parse_row
from apps.carbon.factors import factors_of_zone
from apps.carbon.models import DeclaredRange
from apps.carbon.services import apply_factors, declare_factor
from apps.core.errors import InvalidInput
from apps.fleet.choices import DeviceKind, SiteKind
from apps.fleet.models import Device, Node, Site
from apps.fleet.services import create_site, register_node
from apps.fleet.zones import resolve_zone
from apps.ingest.services import accept_declared
from apps.ingest.window_rules import MAX_DURATION_US, WindowIn
from apps.runs.choices import RunState
from apps.runs.models import Run
from apps.runs.services.runs import RunFacts, change_run, put_run

MAX_ROWS = 10_000


class RowErrors(InvalidInput):
    """Rows with errors, one error per row. Nothing is imported."""

    code = "bad_rows"

    def __init__(self, errors: list[InvalidInput]) -> None:
        super().__init__(
            f"{len(errors)} rows have errors. Nothing was imported.",
            hint="Correct them and import the file again.",
        )
        self.errors = errors


def read_rows(lines: Iterable[str]) -> list[DeclaredRow]:
    """Parse a CSV of declared use. Raises InvalidInput for the file, RowErrors for its rows."""
    reader = csv.DictReader(lines)
    header = [name.strip() for name in reader.fieldnames or []]
    reader.fieldnames = header
    unknown = [name for name in header if name not in COLUMNS]
    if not header or unknown:
        raise InvalidInput(
            f"Unknown column {unknown[0]!r}." if unknown else "The file is empty.",
            field=unknown[0] if unknown else None,
            hint=f"The first line contains column names out of: {', '.join(COLUMNS)}.",
        )
    rows: list[DeclaredRow] = []
    errors: list[InvalidInput] = []
    try:
        for row in reader:
            try:
                rows.append(parse_row(row, reader.line_num))
            except InvalidInput as error:
                errors.append(error)
            if reader.line_num > MAX_ROWS:
                raise InvalidInput(f"More than {MAX_ROWS} lines.", hint="Split the file.")
    except csv.Error as error:
        raise InvalidInput(
            f"line {reader.line_num}: {error}.", hint="Check the quotes of the file."
        ) from error
    if errors:
        raise RowErrors(errors)
    return rows


@transaction.atomic
def import_declared(
    *, lab: Lab, rows: list[DeclaredRow], origin: str, now: int, dry_run: bool = False
) -> dict[str, int]:
    """Store declared rows, all or none. Return the number of rows by result: accepted, duplicate,
    or range changed. A second import changes nothing. ``dry_run``: nothing is stored.

    Raises RowErrors for rows that cannot be used or were imported before with other values.
    """
    errors = [*_repeated_ids(rows), *(error for row in rows if (error := _unusable(lab, row, now)))]
    if errors:
        raise RowErrors(errors)
    counts: dict[str, int] = {}
    occurrences: dict[str, int] = {}
    for row in rows:
        try:
            result = _import_row(lab, row, occurrences, origin, now)
        except InvalidInput as error:
            errors.append(error)
        else:
            counts[result] = counts.get(result, 0) + 1
    if errors:
        raise RowErrors(errors)
    if dry_run:
        transaction.set_rollback(True)
    else:
        apply_factors(lab=lab)
    return counts


def _repeated_ids(rows: list[DeclaredRow]) -> list[InvalidInput]:
    """Return an error for each row with the id of an earlier one."""
    lines: dict[str, int] = {}
    return [
        InvalidInput(
            f"line {row.line}: id {row.id!r} is that of line {lines[row.id]}.",
            field="id",
            hint="Give each job its own id.",
        )
        for row in rows
        if row.id and lines.setdefault(row.id, row.line) != row.line
    ]


def _unusable(lab: Lab, row: DeclaredRow, now: int) -> InvalidInput | None:
    if row.project and project_by_slug(lab, row.project) is None:
        slugs = ", ".join(lab.projects.values_list("slug", flat=True)[:20])
        return InvalidInput(
            f"line {row.line}: unknown project {row.project!r}.",
            field="project",
            hint=f"Use one of {slugs}.",
        )
    if row.zone:
        try:
            zone = resolve_zone(row.zone)
        except InvalidInput as error:
            return InvalidInput(f"line {row.line}: {error.message}", field="zone", hint=error.hint)
        if not factors_of_zone(lab, zone):
            return InvalidInput(
                f"line {row.line}: no {lab.basis} factor for zone {row.zone!r}.",
                field="zone",
                hint="Enter a country code such as DE, or g_per_kwh.",
            )
    if row.end_us > now:
        return InvalidInput(
            f"line {row.line}: the period ends in the future.",
            field="to",
            hint="Declare use after it ended. Times without a zone are UTC.",
        )
    if row.start_us < 0 or row.end_us - row.start_us > MAX_DURATION_US:
        return InvalidInput(
            f"line {row.line}: the period begins before 1970 or is longer than 400 days.",
            field="from",
            hint="Divide a longer period into several rows.",
        )
    return None


def _import_row(
    lab: Lab, row: DeclaredRow, occurrences: dict[str, int], origin: str, now: int
) -> str:
    """Store one row; return its result. Raises InvalidInput for a row that was imported before
    with other values.
    """
    site = _site(lab, row, now)
    node = _node(lab, site, now)
    run_uuid = _row_uuid(lab, node, row, occurrences)
    device, _ = Device.objects.get_or_create(
        lab=lab,
        key=f"declared:{node.uuid}/{hashlib.sha256(run_uuid.bytes).hexdigest()[:16]}",
        defaults={"kind": DeviceKind.DECLARED, "node": node, "name": row.name},
    )
    facts = RunFacts(
        name=row.name, started_us=row.start_us, project=row.project or None, host=node.hostname
    )
    window = WindowIn(
        device=device.key,
        epoch="declared",
        sequence=0,
        start_us=row.start_us,
        end_us=row.end_us,
        mono_start_us=0,
        mono_end_us=0,
        counter_start=None,
        counter_end=None,
        energy_mj=row.energy_mj,
        measurement="declared",
        flags=0,
        shares=[(f"run:{run_uuid}", row.energy_mj)],
    )
    where = f"{origin}, line {row.line}"[:200]
    stored = Run.objects.select_related("project", "node").filter(lab=lab, uuid=run_uuid).first()
    if stored is not None and not _is_same(stored, row, node):
        raise _changed(row)
    run, _ = put_run(lab=lab, uuid=run_uuid, facts=facts, by=None, bound_node=node.uuid)
    change_run(
        lab=lab,
        uuid=run_uuid,
        state=RunState.FINISHED,
        ended_us=row.end_us,
        exit_code=None,
        reported_energy_mj=None,
        bound_node=node.uuid,
    )
    [result] = accept_declared(
        node=node, device=device, windows=[window], batch_uuid=run_uuid, origin=where, now=now
    )
    if result not in (["accepted"], ["duplicate"]):
        raise _changed(row)
    is_changed = _store_range(run, row)
    return "range changed" if is_changed and result == ["duplicate"] else result[0]


def _is_same(run: Run, row: DeclaredRow, node: Node) -> bool:
    return (
        (run.node == node)
        and (run.name, run.started_us, run.ended_us) == (row.name, row.start_us, row.end_us)
        and run.requested_project == row.project
    )


def _changed(row: DeclaredRow) -> InvalidInput:
    return InvalidInput(
        f"line {row.line}: {row.name!r} was imported before with other values.",
        field="id" if row.id else "kwh",
        hint="Restore the first values. If it is another job, give it an id of its own.",
    )


def _store_range(run: Run, row: DeclaredRow) -> bool:
    """Store the range of a row; return whether it changed."""
    energy, factor = row.energy_range, row.factor_range or (None, None)
    values = {
        "energy_low_ppm": energy[0],
        "energy_high_ppm": energy[1],
        "factor_low_ppm": factor[0],
        "factor_high_ppm": factor[1],
    }
    stored = DeclaredRange.objects.filter(run=run).values(*values).first()
    if stored == values:
        return False
    DeclaredRange.objects.update_or_create(run=run, defaults=values)
    return stored is not None


def _row_uuid(lab: Lab, node: Node, row: DeclaredRow, occurrences: dict[str, int]) -> UUID:
    """Return the identity of a row: its id, or its content and how often that occurred in the file
    before.
    """
    identity = (
        f"labcarbon:declared-id:{lab.pk}:{row.id}"
        if row.id
        else (
            f"labcarbon:declared:{lab.pk}:{node.uuid}:{row.project}:{row.name}:{row.start_us}:"
            f"{row.end_us}"
        )
    )
    earlier = occurrences.get(identity, 0)
    occurrences[identity] = earlier + 1
    return uuid5(NAMESPACE_URL, f"{identity}#{earlier + 1}" if earlier else identity)


def _site(lab: Lab, row: DeclaredRow, now: int) -> Site:
    """Return the site of declared use with the row's zone (or declared factor) and PUE. A
    missing site is created.
    """
    zone = resolve_zone(row.zone)
    # Earlier versions named the site as the zone was written: their rows must be found again.
    for where in dict.fromkeys((row.zone, zone) if zone else (f"{row.ug_per_kwh} µg/kWh",)):
        name = f"Declared, {where}, PUE {row.pue_ppm / 1e6:g}"
        existing = Site.objects.filter(lab=lab, name=name).first()
        if existing is not None:
            return existing
    if row.ug_per_kwh is not None:
        zone = f"declared:{lab.pk}:{row.ug_per_kwh}"
        declare_factor(
            lab=lab,
            zone=zone,
            name=f"stated as {row.ug_per_kwh / 1e6:g} g/kWh",
            ug_per_kwh=row.ug_per_kwh,
            source="stated with the declared activity",
            now=now,
        )
    return create_site(lab=lab, name=name, kind=SiteKind.DECLARED, zone=zone, pue_ppm=row.pue_ppm)


def _node(lab: Lab, site: Site, now: int) -> Node:
    uuid = uuid5(NAMESPACE_URL, f"labcarbon:declared-node:{lab.pk}:{site.pk}")
    existing = Node.objects.filter(lab=lab, uuid=uuid).first()
    return existing or register_node(
        lab=lab, uuid=uuid, hostname=site.name, facts={}, site=site, now=now
    )
