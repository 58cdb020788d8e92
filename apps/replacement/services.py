"""Replacement analysis on the lab's own use and grid: inputs with sources, and the result."""

from dataclasses import dataclass, field
from fractions import Fraction

from apps.accounts.models import Lab
from apps.assets import amortisation
from apps.assets.choices import AssetState
from apps.assets.models import Asset, EmbodiedCharge
from apps.assets.services.charges import as_charge, events_of
from apps.assets.services.validation import LIFE_YEARS
from apps.carbon.figures.figure_query import FigureQuery
from apps.carbon.meter_errors import METER_ERROR_PPM
from apps.catalog.choices import HardwareKind
from apps.catalog.models import HardwareModel
from apps.catalog.selectors import models_of
from apps.core.errors import NotFound
from apps.core.units import HOURS_PER_YEAR, INT64_MAX, US_PER_HOUR, hour_of
from apps.ingest.choices import EnergyQuality
from apps.replacement import payback
from apps.replacement.inputs import Input, embodied_input, grid, new_power, pue_of
from apps.replacement.measured_use import (
    MEMORY_DAYS,
    Measured,
    Meter,
    measured,
    meter_of,
    most_memory_mib,
)
from apps.replacement.payback import Inputs, Known, Payback, Scenarios, Unknown
from apps.replacement.performance import (
    MEASURES,
    form_factor_of,
    measures_of,
    performance_of,
    ratio_of,
)
from apps.replacement.query import ReplacementQuery
from apps.replacement.requirements import (
    UNCERTAIN,
    UNMET,
    Card,
    Requirement,
    form_requirement,
    hours_requirement,
    memory_requirement,
)

REPLACE, KEEP, NEVER, OPEN, IMPOSSIBLE, UNKNOWN, CHOOSE, DISPOSED = (
    "replace",
    "keep",
    "never",
    "open",
    "impossible",
    "unknown",
    "choose",
    "gone",
)
MEMORY_INPUT = "memory_mib"  # an input of the requirements, not of the payback time
COMPONENTS = {HardwareKind.GPU, HardwareKind.CPU}  # kinds that need a slot of the machine
CENTURY = 100  # years: longer than any card's life: a later payback counts as never


@dataclass(frozen=True)
class ReplacementAnalysis:
    """Result of the analysis with its inputs.

    ``result`` None: no new card is selected. ``open``: the range includes payback times within and
    beyond the new card's life. ``account`` None: embodied carbon of the old one unknown. An unmet
    requirement precedes every payback time.
    """

    asset: Asset
    new: HardwareModel | None
    query: ReplacementQuery
    inputs: dict[str, Input]
    result: Payback | Unknown | None
    life_years: int
    meter: Meter | None
    measured: Measured | None
    use: FigureQuery | None
    account: amortisation.Account | None
    measures: list[str]
    requirements: list[Requirement] = field(default_factory=list)
    ways: list[Scenarios] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """Return the kind of the result."""
        if self.asset.state == AssetState.DISPOSED:
            return DISPOSED
        if self.result is None:
            return CHOOSE
        if self.with_state(UNMET):
            return IMPOSSIBLE
        if isinstance(self.result, Unknown):
            return UNKNOWN
        if self.open and is_never(self.result.high):
            return OPEN
        if is_never(self.result.years):
            return NEVER
        assert self.result.years is not None
        if self.result.years > self.life_years:
            return KEEP
        return OPEN if self.with_state(UNCERTAIN) else REPLACE

    def with_state(self, state: str) -> list[Requirement]:
        """Return the requirements in a state."""
        return [each for each in self.requirements if each.state == state]

    @property
    def open(self) -> bool:
        result = self.result
        if not isinstance(result, Payback) or result.low is None:
            return False
        return result.low <= self.life_years and (
            result.high is None or result.high > self.life_years
        )


def is_never(years: Fraction | None) -> bool:
    """Return whether a payback time counts as never."""
    return years is None or years > CENTURY


def asset_for_analysis(lab: Lab, pk: int) -> Asset | None:
    """Return the lab's asset with its model and site, or None."""
    assets = Asset.objects.select_related("model", "site", "parent__site", "lab")
    return assets.filter(lab=lab, pk=pk).first() if pk <= INT64_MAX else None


def analyse_replacement(
    *, lab: Lab, asset: Asset, query: ReplacementQuery, now: int
) -> ReplacementAnalysis:
    """Return the replacement analysis of an asset. Raises NotFound for an unknown new model."""
    hour = hour_of(now)
    new = _new(lab, query)
    meter = meter_of(asset, hour)
    from_hour = hour + 1 - query.days * 24
    measured_use = measured(lab, meter, from_hour, hour + 1) if meter else None
    memory_mib = (
        most_memory_mib(meter, from_hour, hour + 1)
        if meter and asset.kind == HardwareKind.GPU and "memory_mib" not in query.own
        else None
    )
    sourced_inputs = _inputs(lab, asset, new, query, meter, measured_use, hour) | _memory(
        memory_mib
    )
    result = _result(sourced_inputs) if new else None
    requirements = _requirements(asset, new, sourced_inputs) if new else []
    life = query.life_years or LIFE_YEARS[HardwareKind(asset.kind)]
    impossible = any(each.state == UNMET for each in requirements)
    inputs = _known(sourced_inputs) if isinstance(result, Payback) and not impossible else None
    return ReplacementAnalysis(
        asset=asset,
        new=new,
        query=query,
        inputs=sourced_inputs,
        result=result,
        life_years=life,
        meter=meter,
        measured=measured_use,
        use=_query(lab, meter, measured_use),
        account=_account(asset, hour),
        measures=_measures(asset, new),
        requirements=requirements,
        ways=payback.ways(inputs, life + query.wait_years, query.wait_years) if inputs else [],
    )


def _new(lab: Lab, query: ReplacementQuery) -> HardwareModel | None:
    if query.new_id is None:
        return None
    new = models_of(lab).filter(pk=query.new_id, retired_us__isnull=True).first()
    if new is None:
        raise NotFound(
            "There is no such model in the catalogue.",
            field="new",
            hint="Search it by name, and choose one.",
        )
    return new


def _measures(asset: Asset, new: HardwareModel | None) -> list[str]:
    if asset.model is None or new is None:
        return []
    return measures_of(performance_of(asset.model.name), performance_of(new.name))


def _query(lab: Lab, meter: Meter | None, measured_use: Measured | None) -> FigureQuery | None:
    """Return the query of the measured use."""
    if meter is None or measured_use is None:
        return None
    kind, key = ("device", meter.device.key) if meter.device else ("node", str(meter.place.uuid))
    return FigureQuery(
        "energy_mj", measured_use.from_hour, measured_use.to_hour, kind, key, basis=lab.basis
    )


def _account(asset: Asset, hour: int) -> amortisation.Account | None:
    """Return the account of the old asset. Disposal now would write off its balance."""
    events = events_of([asset.pk])[asset.pk]
    if not events or events[0].total_ug is None:
        return None
    rows = EmbodiedCharge.objects.filter(asset=asset)
    return amortisation.account(events, [as_charge(row) for row in rows], hour)


def _inputs(
    lab: Lab,
    asset: Asset,
    new: HardwareModel | None,
    query: ReplacementQuery,
    meter: Meter | None,
    measured_use: Measured | None,
    hour: int,
) -> dict[str, Input]:
    """Return all inputs. Priority: the visitor's own, measured, catalogue, assumed."""
    inputs = {
        name: Input(name, Known.exact(value), "yours", "given in the address")
        for name, value in query.own.items()
    }
    inputs = _use(measured_use) | inputs
    if "old_mw" not in inputs and asset.model and asset.model.tdp_mw:
        tdp = asset.model.tdp_mw
        known = Known(tdp, tdp * 6 // 10, tdp)
        inputs["old_mw"] = Input(
            "old_mw",
            known,
            "catalogue",
            f"rated power: not measured ({asset.model.source})",
            asset.model.licence,
        )
    place = meter.place if meter else None
    for each in (grid(lab, asset, place, hour), pue_of(lab, asset, place, hour)):
        if each:
            inputs.setdefault(each.field, each)
    if new:
        for each in (
            embodied_input(lab, new),
            new_power(asset.model, new, inputs.get("old_mw")),
            _ratio(asset, new, query),
        ):
            if each:
                inputs.setdefault(each.field, each)
    if "old_idle_mw" in inputs and "new_idle_mw" not in inputs:
        known = Known.within(inputs["old_idle_mw"].needed.value, 500_000, 500_000)
        inputs["new_idle_mw"] = Input(
            "new_idle_mw",
            known,
            "assumed",
            ("same as the old card, ±50 %: not measured on the new one"),
        )
    return inputs


def _use(measured_use: Measured | None) -> dict[str, Input]:
    """Return measured power and hours.

    Unmeasured time counts as off. The upper bound counts it as used like measured time.
    """
    if measured_use is None:
        return {}
    down, up = METER_ERROR_PPM[EnergyQuality(measured_use.quality).name]
    days = max(1, round(measured_use.hours / 24))
    source = (
        f"measured over {days} day{'' if days == 1 else 's'} "
        f"({EnergyQuality(measured_use.quality).name.lower()})"
    )
    inputs = {}
    for name, power in (("old_mw", measured_use.used_mw), ("old_idle_mw", measured_use.idle_mw)):
        if power is not None:
            inputs[name] = Input(name, Known.within(power, down, up), "measured", source)
    span_us = measured_use.hours * US_PER_HOUR
    for name, time_us in (("hours", measured_use.used_us), ("idle_hours", measured_use.idle_us)):
        value = time_us * HOURS_PER_YEAR // span_us
        most = (
            max(value, time_us * HOURS_PER_YEAR // measured_use.measured_us)
            if measured_use.measured_us
            else value
        )
        inputs[name] = Input(
            name,
            Known(value, value, most),
            "measured",
            source + "; hours without measurements count as off",
        )
    return inputs


def _memory(memory_mib: int | None) -> dict[str, Input]:
    if memory_mib is None:
        return {}
    source = f"most memory in use on the old card in the last {MEMORY_DAYS} days or less"
    return {
        MEMORY_INPUT: Input(MEMORY_INPUT, Known.exact(memory_mib), "measured", source),
    }


def _requirements(asset: Asset, new: HardwareModel, inputs: dict[str, Input]) -> list[Requirement]:
    """Return the requirements of the new card. A whole machine is compared by hours only."""
    found = []
    if "hours" in inputs and "ratio_ppm" in inputs:
        found.append(hours_requirement(inputs["hours"].needed, inputs["ratio_ppm"].needed))
    if new.kind != asset.kind and COMPONENTS & {new.kind, asset.kind}:
        return [*found, form_requirement(None, _card(new), HardwareKind(asset.kind).label)]
    old = _card(asset.model) if asset.model else None
    if asset.kind == HardwareKind.GPU:
        used = inputs[MEMORY_INPUT].needed.value if MEMORY_INPUT in inputs else None
        found.append(memory_requirement(used, old, _card(new)))
    if asset.kind in COMPONENTS:
        found.append(form_requirement(old, _card(new), HardwareKind(asset.kind).label))
    return found


def _card(model: HardwareModel) -> Card:
    kind = HardwareKind(model.kind).label
    return Card(kind, model.memory_mib, form_factor_of(model.name))


def _ratio(asset: Asset, new: HardwareModel, query: ReplacementQuery) -> Input | None:
    old, card = (performance_of(model.name) if model else None for model in (asset.model, new))
    known = ratio_of(old, card, query.by) if old and card else None
    if known is None or old is None or card is None:
        return None
    names = measures_of(old, card)
    measures = [query.by] if query.by else names
    others = [MEASURES[name] for name in names if name not in measures]
    basis = (
        f"{'mean' if len(measures) > 1 else 'ratio'} by "
        f"{' and '.join(MEASURES[name] for name in measures)}"
    )
    rest = (
        ", ±30 %"
        if len(names) == 1
        else f", bounded by {' and '.join(others)}"
        if others
        else ", bounded by each"
    )
    return Input("ratio_ppm", known, "catalogue", f"{basis}{rest} ({card.source})", card.licence)


def _result(inputs: dict[str, Input]) -> Payback | Unknown:
    missing = tuple(name for name in payback.NEEDED if name not in inputs)
    return Unknown(missing) if missing else payback.payback(_known(inputs))


def _known(inputs: dict[str, Input]) -> Inputs:
    return Inputs(**{name: each.needed for name, each in inputs.items() if name != MEMORY_INPUT})


def in_years(years: Fraction | None, now: int) -> int | None:
    """Return the time (µs) after this number of years of 8 760 h from now. None: never."""
    return None if years is None else now + round(years * HOURS_PER_YEAR * US_PER_HOUR)
