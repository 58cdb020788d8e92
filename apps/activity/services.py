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
from apps.carbon.services import apply_factors, declare_factor
from apps.core.errors import InvalidInput
from apps.fleet.choices import DeviceKind, SiteKind
from apps.fleet.models import Device, Node, Site
from apps.fleet.services import create_site, register_node
from apps.ingest.services import accept_declared
from apps.ingest.window_rules import WindowIn
from apps.runs.choices import RunState
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
    for row in reader:
        try:
            rows.append(parse_row(row, reader.line_num))
        except InvalidInput as error:
            errors.append(error)
        if reader.line_num > MAX_ROWS:
            raise InvalidInput(f"More than {MAX_ROWS} lines.", hint="Split the file.")
    if errors:
        raise RowErrors(errors)
    return rows


@transaction.atomic
def import_declared(*, lab: Lab, rows: list[DeclaredRow], origin: str, now: int) -> dict[str, int]:
    """Store declared rows, all or none. Return the number of rows by result. A second import
    changes nothing.
    """
    errors = [error for row in rows if (error := _unusable(lab, row))]
    if errors:
        raise RowErrors(errors)
    counts: dict[str, int] = {}
    for row in rows:
        result = _import_row(lab, row, origin, now)
        counts[result] = counts.get(result, 0) + 1
    apply_factors(lab=lab)
    return counts


def _unusable(lab: Lab, row: DeclaredRow) -> InvalidInput | None:
    if row.project and project_by_slug(lab, row.project) is None:
        slugs = ", ".join(lab.projects.values_list("slug", flat=True)[:20])
        return InvalidInput(
            f"line {row.line}: unknown project {row.project!r}.",
            field="project",
            hint=f"Use one of {slugs}.",
        )
    if row.zone and not factors_of_zone(lab, row.zone):
        return InvalidInput(
            f"line {row.line}: no {lab.basis} factor for zone {row.zone!r}.",
            field="zone",
            hint="Enter a country code such as DE, or g_per_kwh.",
        )
    if row.end_us > 2**62:
        return InvalidInput(f"line {row.line}: the period is out of range.", field="to")
    return None


def _import_row(lab: Lab, row: DeclaredRow, origin: str, now: int) -> str:
    site = _site(lab, row, now)
    node = _node(lab, site, now)
    run_uuid = _row_uuid(lab, node, row)
    device, _ = Device.objects.get_or_create(
        lab=lab,
        key=f"declared:{node.uuid}/{hashlib.sha256(run_uuid.bytes).hexdigest()[:16]}",
        defaults={"kind": DeviceKind.DECLARED, "node": node, "name": row.name},
    )
    facts = RunFacts(
        name=row.name, started_us=row.start_us, project=row.project or None, host=node.hostname
    )
    put_run(lab=lab, uuid=run_uuid, facts=facts, by=None, bound_node=node.uuid)
    change_run(
        lab=lab,
        uuid=run_uuid,
        state=RunState.FINISHED,
        ended_us=row.end_us,
        exit_code=None,
        reported_energy_mj=None,
        bound_node=node.uuid,
    )
    window = WindowIn(
        device=device.key,
        epoch="declared",
        sequence=0,
        start_us=row.start_us,
        end_us=row.end_us,
        mono_end_us=0,
        counter_start=None,
        counter_end=None,
        energy_mj=row.energy_mj,
        measurement="declared",
        flags=0,
        shares=[(f"run:{run_uuid}", row.energy_mj)],
    )
    where = f"{origin}, line {row.line}"[:200]
    [result] = accept_declared(
        node=node,
        device=device,
        windows=[window],
        batch_uuid=run_uuid,
        origin=where,
        now=max(now, row.end_us),
    )
    return " ".join(result)


def _row_uuid(lab: Lab, node: Node, row: DeclaredRow) -> UUID:
    return uuid5(
        NAMESPACE_URL,
        (
            f"labcarbon:declared:{lab.pk}:{node.uuid}:{row.project}:{row.name}:{row.start_us}:"
            f"{row.end_us}"
        ),
    )


def _site(lab: Lab, row: DeclaredRow, now: int) -> Site:
    """Return the site of declared use with the row's zone (or declared factor) and PUE. A
    missing site is created.
    """
    where = row.zone or f"{row.ug_per_kwh} µg/kWh"
    name = f"Declared, {where}, PUE {row.pue_ppm / 1e6:g}"
    existing = Site.objects.filter(lab=lab, name=name).first()
    if existing is not None:
        return existing
    zone = row.zone
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
