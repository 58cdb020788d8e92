"""Record and withdraw activities. The energy is a declared window of the ledger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from uuid import uuid4

from django.db import transaction

from apps.accounts import audit
from apps.accounts.models import Lab, User
from apps.activity.choices import Act, ActivityKind
from apps.activity.declared_rows import MAX_ID_CHARS, MAX_PUE, DeclaredRow, Range
from apps.activity.drafts import Draft
from apps.activity.formulas import cloud_compute
from apps.activity.formulas.estimate import Estimate, number
from apps.activity.instance_types import with_size
from apps.activity.kinds import (
    Kind,
    check_hours,
    control_of,
    default_pue,
    kind_of,
    parse_inputs,
    values_of,
)
from apps.activity.models import Activity
from apps.activity.services.declared_use import NewUse, unusable, write_new_uses
from apps.activity.services.lookups import Lookups
from apps.assets.services.validation import default_life_hours
from apps.carbon.meter_errors import FACTOR_ERROR_PPM
from apps.carbon.services import check_factor
from apps.catalog.choices import HardwareKind
from apps.core.errors import Conflict, InvalidInput, LabCarbonError
from apps.core.jobs import enqueue
from apps.core.text import is_unstorable
from apps.core.units import HOURS_PER_YEAR, PPM
from apps.fleet.choices import Control
from apps.fleet.models import Device
from apps.fleet.zones import resolve_zone
from apps.ingest.services import withdraw_declared
from apps.ingest.window_rules import MAX_ENERGY_MJ

MAX_NAME = 200
MAX_REASON = 300


@dataclass(frozen=True)
class Embodied:
    """Share of the embodied carbon of GPUs in µg; None: no GPUs, or no figure."""

    value_ug: int
    low_ug: int
    high_ug: int
    source: str


@dataclass(frozen=True)
class Preview:
    """What an activity amounts to, before it is saved."""

    kind: Kind
    inputs: dict[str, str]
    estimate: Estimate
    zone: str
    pue_ppm: int
    pue_source: str
    control: Control
    embodied: Embodied | None
    row: DeclaredRow


def preview_activity(
    *, lab: Lab, draft: Draft, now: int, lookups: Lookups | None = None
) -> Preview:
    """Compute an activity without saving it. ``lookups``: those of other activities. Hours can be
    the sum of several units: see ``check_entered``. Raises InvalidInput.
    """
    lookups = lookups or Lookups(lab)
    kind = kind_of(draft.kind)
    _check_texts(draft)
    inputs = parse_inputs(kind, draft.inputs)
    values: dict[str, Fraction | str] = dict(values_of(kind, inputs))
    embodied, size_source = None, ""
    if kind.kind == ActivityKind.CLOUD_COMPUTE:
        inputs, size_source = with_size(inputs)
        values = dict(values_of(kind, inputs))
        tdp_mw, embodied = _gpus(lookups, inputs, values)
        values["gpu_tdp_mw"] = tdp_mw
    estimate = kind.compute(values)
    if size_source:
        estimate = replace(estimate, source=f"{estimate.source}; {size_source}")
    if estimate.high_mj > MAX_ENERGY_MJ:
        raise InvalidInput(
            "The energy is out of range: more than 10 GWh.",
            field="inputs",
            hint="Divide the activity into several.",
        )
    pue_ppm, pue_source = _pue(draft, kind, inputs)
    row = DeclaredRow(
        line=0,
        id="",
        name=draft.name.strip(),
        project=draft.project,
        start_us=draft.start_us,
        end_us=draft.end_us,
        energy_mj=estimate.energy_mj,
        energy_range=_range(estimate),
        zone=draft.zone.strip(),
        ug_per_kwh=draft.ug_per_kwh,
        factor_range=None if draft.ug_per_kwh is None else (FACTOR_ERROR_PPM, FACTOR_ERROR_PPM),
        pue_ppm=pue_ppm,
    )
    error = unusable(lookups, row, now)
    if error is not None:
        message = f"{error.message[:1].upper()}{error.message[1:]}"
        raise InvalidInput(message, field=error.field, hint=error.hint)
    return Preview(
        kind,
        inputs,
        estimate,
        resolve_zone(row.zone),
        pue_ppm,
        pue_source,
        control_of(kind, inputs),
        embodied,
        row,
    )


def check_entered(computed: Preview) -> None:
    """Raise InvalidInput if hours that a person or client entered do not fit into the period."""
    values = values_of(computed.kind, computed.inputs)
    check_hours(computed.kind, values, computed.row.end_us - computed.row.start_us)


@transaction.atomic
def record_activity(*, lab: Lab, draft: Draft, by: User | None, now: int) -> tuple[Activity, bool]:
    """Store an activity with its window; return it and whether it is new.

    The same external id with equal content changes nothing. Raises Conflict for other content and
    for a withdrawn activity.
    """
    audit.hold(lab)
    lookups = Lookups(lab)
    computed = preview_activity(lab=lab, draft=draft, now=now, lookups=lookups)
    if draft.external_id:
        stored = Activity.objects.filter(lab=lab, external_id=draft.external_id).first()
        if stored is not None:
            require_same(stored, draft, computed, lookups)
            return stored, False
    check_entered(computed)
    stored_rows, refused = store_activities(
        computed=[(draft, computed)], lookups=lookups, by=by, origin="activity", now=now
    )
    for error in refused.values():
        raise error
    [activity] = stored_rows
    enqueue(kind="attribution.run", key=f"{lab.pk}:{activity.uuid}")
    details = {
        "kind": draft.kind,
        "energy_mj": activity.energy_mj,
        "uuid": str(activity.uuid),
    }
    audit.record(
        lab=lab, by=by, action=Act.RECORDED, subject=activity.name, details=details, now=now
    )
    return activity, True


def store_activities(
    *,
    computed: Sequence[tuple[Draft, Preview]],
    lookups: Lookups,
    by: User | None,
    origin: str,
    now: int,
) -> tuple[list[Activity], dict[int, LabCarbonError]]:
    """Store new activities with their windows, in the caller's transaction that holds the lab.
    Return them, and errors by the position of activities that the ledger does not accept.
    """
    refused: dict[int, LabCarbonError] = {}
    while True:
        parts = [(i, *part) for i, part in enumerate(computed) if i not in refused]
        uses = [
            NewUse(
                uuid4(),
                preview.row,
                lookups.node(preview.row, now, preview.control),
                lookups.project(draft.project) if draft.project else None,
            )
            for _, draft, preview in parts
        ]
        savepoint = transaction.savepoint()
        devices, results = write_new_uses(lab=lookups.lab, uses=uses, origin=origin, now=now)
        if not results:
            transaction.savepoint_commit(savepoint)
            break
        transaction.savepoint_rollback(savepoint)
        for (position, _, _), use in zip(parts, uses, strict=True):
            if use.uuid in results:
                refused[position] = Conflict(
                    f"The ledger did not accept the energy: {results[use.uuid]}.",
                    hint="Check the period and the energy.",
                )
    rows = [
        _activity(draft, preview, use, devices[use.uuid], lookups, by, now)
        for (_, draft, preview), use in zip(parts, uses, strict=True)
    ]
    return Activity.objects.bulk_create(rows, batch_size=500), refused


def _activity(
    draft: Draft,
    computed: Preview,
    use: NewUse,
    device: Device,
    lookups: Lookups,
    by: User | None,
    now: int,
) -> Activity:
    estimate, embodied = computed.estimate, computed.embodied
    return Activity(
        lab=lookups.lab,
        uuid=use.uuid,
        external_id=draft.external_id,
        energy_mj=estimate.energy_mj,
        low_mj=estimate.low_mj,
        high_mj=estimate.high_mj,
        equation=estimate.equation[:500],
        source=estimate.source,
        pue_source=computed.pue_source,
        embodied_ug=embodied.value_ug if embodied else None,
        embodied_low_ug=embodied.low_ug if embodied else None,
        embodied_high_ug=embodied.high_ug if embodied else None,
        embodied_source=embodied.source[:500] if embodied else "",
        device=device,
        created_by=by,
        created_us=now,
        **_content(lookups, draft, computed),
    )


@transaction.atomic
def withdraw_activity(*, activity: Activity, reason: str, by: User, now: int) -> Activity:
    """Take the energy of an activity out of the ledger. Its row stays, with the reason."""
    audit.hold(activity.lab)
    reason = reason.strip()
    if not reason or len(reason) > MAX_REASON or is_unstorable(reason):
        raise InvalidInput(
            f"Enter a reason of at most {MAX_REASON} characters.",
            field="reason",
            hint="It is stored with the activity.",
        )
    stored = Activity.objects.select_for_update(of=("self",)).get(pk=activity.pk)
    if stored.withdrawn_us is not None:
        raise Conflict("This activity is withdrawn already.", hint="Reload the page.")
    withdraw_declared(device=stored.device)
    stored.withdrawn_us, stored.withdrawn_by, stored.withdrawn_reason = now, by, reason
    stored.save(update_fields=["withdrawn_us", "withdrawn_by", "withdrawn_reason"])
    details = {"reason": reason, "energy_mj": stored.energy_mj, "uuid": str(stored.uuid)}
    audit.record(
        lab=activity.lab,
        by=by,
        action=Act.WITHDRAWN,
        subject=stored.name,
        details=details,
        now=now,
    )
    return stored


def _content(lookups: Lookups, draft: Draft, computed: Preview) -> dict[str, Any]:
    """Return what identifies an activity with an external id. Computed values are no part of it:
    a changed catalogue does not change what was declared.
    """
    return {
        "kind": draft.kind,
        "name": computed.row.name,
        "project": lookups.project(draft.project) if draft.project else None,
        "start_us": draft.start_us,
        "end_us": draft.end_us,
        "zone": computed.zone,
        "ug_per_kwh": draft.ug_per_kwh,
        "pue_ppm": computed.pue_ppm,
        "inputs": computed.inputs,
    }


def require_same(stored: Activity, draft: Draft, computed: Preview, lookups: Lookups) -> None:
    """Raise Conflict if an activity with the external id of a draft has other content, or is
    withdrawn.
    """
    if stored.withdrawn_us is not None:
        raise Conflict(
            f"The activity with the external id {stored.external_id!r} was withdrawn.",
            field="external_id",
            hint="Use another external id.",
        )
    for name, value in _content(lookups, draft, computed).items():
        if getattr(stored, name) != value:
            raise Conflict(
                f"The external id {stored.external_id!r} exists with another {name}.",
                field="external_id",
                hint="Withdraw that activity and record this one with another external id.",
            )


def _check_texts(draft: Draft) -> None:
    name = draft.name.strip()
    if not name or len(name) > MAX_NAME:
        raise InvalidInput(
            f"The name is empty or longer than {MAX_NAME} characters.",
            field="name",
            hint="Enter a name.",
        )
    if len(draft.external_id) > MAX_ID_CHARS:
        raise InvalidInput(
            f"The external id is longer than {MAX_ID_CHARS} characters.",
            field="external_id",
            hint="Enter a shorter one.",
        )
    texts = {"name": name, "external_id": draft.external_id}
    for field, text in {**texts, "project": draft.project, "zone": draft.zone}.items():
        if is_unstorable(text):
            raise InvalidInput("Invalid character.", field=field, hint="Remove it.")
    if draft.end_us <= draft.start_us:
        raise InvalidInput(
            "The period is empty.", field="to", hint="Enter a later end. It is not included."
        )
    if bool(draft.zone.strip()) == (draft.ug_per_kwh is not None):
        raise InvalidInput(
            "Either the grid zone or the g CO2e per kWh must be set.",
            field="zone",
            hint="Enter a zone such as DE, a cloud region, or the factor of the operator.",
        )
    if draft.ug_per_kwh is not None:
        check_factor(draft.ug_per_kwh)


def _pue(draft: Draft, kind: Kind, inputs: Mapping[str, str]) -> tuple[int, str]:
    if draft.pue_ppm is None:
        return default_pue(kind, inputs)
    if not PPM <= draft.pue_ppm <= MAX_PUE * PPM:
        raise InvalidInput(
            f"The PUE is not 1 to {MAX_PUE}.",
            field="pue",
            hint="Enter 1 if the energy includes the facility.",
        )
    return draft.pue_ppm, "stated by the lab"


def _range(estimate: Estimate) -> Range:
    """Return the range below and above in ppm, half up."""
    energy_mj = estimate.energy_mj
    if not energy_mj:
        return 0, 0
    below, above = energy_mj - estimate.low_mj, estimate.high_mj - energy_mj
    return tuple((part * PPM * 2 + energy_mj) // (2 * energy_mj) for part in (below, above))  # type: ignore[return-value]


def _gpus(
    lookups: Lookups, inputs: Mapping[str, str], values: Mapping[str, Fraction | str]
) -> tuple[Fraction, Embodied | None]:
    """Return maximum power of a GPU in mW, and the embodied share of all GPUs."""
    gpus = number(values, "gpus")
    if not gpus:
        return Fraction(0), None
    found = lookups.gpu(inputs.get("gpu", ""))
    if found.model is None or found.model.tdp_mw is None:
        raise InvalidInput(
            f"The catalogue has no GPU {inputs.get('gpu', '')!r} with a maximum power.",
            field="gpu",
            hint="Enter a name of the page Catalogue, such as NVIDIA A100-SXM4-80GB.",
        )
    figure = found.figure
    if figure is None:
        return Fraction(found.model.tdp_mw), None
    hours = gpus * cloud_compute.instance_hours(values)
    years = (
        Fraction(figure.lifetime_years_typical)
        if figure.lifetime_years_typical
        else Fraction(default_life_hours(HardwareKind.GPU), HOURS_PER_YEAR)
    )
    value, low, high = (
        cloud_compute.embodied_share_ug(amount, hours, years)
        for amount in (figure.total_ug, figure.low_ug, figure.high_ug)
    )
    source = f"SCI over {float(years):g} years; {figure.source}"
    return Fraction(found.model.tdp_mw), Embodied(value, low, high, source)
