"""Replace or keep, on the lab's own use and grid: the inputs with where each comes from, and the answer."""

from dataclasses import dataclass, field
from fractions import Fraction

from apps.accounts.models import Lab
from apps.assets import amortisation
from apps.assets.choices import AssetState
from apps.assets.models import Asset, EmbodiedCharge
from apps.assets.services.charges import as_charge, events_of
from apps.assets.services.validation import LIFE_YEARS
from apps.carbon.figures.query import FigureQuery
from apps.carbon.meter_errors import METER_ERROR_PPM
from apps.catalog.choices import HardwareKind
from apps.catalog.models import HardwareModel
from apps.catalog.selectors import models_of
from apps.core.errors import NotFound
from apps.core.units import INT64_MAX, US_PER_HOUR, hour_of
from apps.ingest.choices import EnergyQuality
from apps.replacement import payback
from apps.replacement.inputs import Input, grid, making, new_power, pue_of
from apps.replacement.measured_use import Measured, Meter, measured, meter_of
from apps.replacement.payback import Inputs, Known, Payback, Unknown, Ways
from apps.replacement.performance import MEASURES, measures_of, performance_of, ratio_of
from apps.replacement.query import Asked

REPLACE, KEEP, NEVER, UNKNOWN, CHOOSE, GONE = "replace", "keep", "never", "unknown", "choose", "gone"
CENTURY = 100  # years: no card lives as long, so what pays back later never does


@dataclass(frozen=True)
class Answer:
    """The answer and all it rests on. ``result`` None: no new card was chosen. ``open``: the range lies on both sides of
    the new card's life. ``account`` None: nobody knows what making the old one emitted."""

    asset: Asset
    new: HardwareModel | None
    asked: Asked
    inputs: dict[str, Input]
    result: Payback | Unknown | None
    life_years: int
    meter: Meter | None
    measured: Measured | None
    use: FigureQuery | None
    account: amortisation.Account | None
    measures: list[str]
    ways: list[Ways] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """Return which answer it is."""
        if self.asset.state == AssetState.DISPOSED:
            return GONE
        if self.result is None:
            return CHOOSE
        if isinstance(self.result, Unknown):
            return UNKNOWN
        if self.result.years is None or self.result.years > CENTURY:
            return NEVER
        return REPLACE if self.result.years <= self.life_years else KEEP

    @property
    def open(self) -> bool:
        found = self.result
        if not isinstance(found, Payback) or found.low is None:
            return False
        return found.low <= self.life_years and (found.high is None or found.high > self.life_years)


def asset_to_keep(lab: Lab, pk: int) -> Asset | None:
    """Return the lab's asset with its model and place, or None."""
    found = Asset.objects.select_related("model", "site", "parent__site", "lab")
    return found.filter(lab=lab, pk=pk).first() if pk <= INT64_MAX else None


def answer(*, lab: Lab, asset: Asset, asked: Asked, now: int) -> Answer:
    """Return whether to replace an asset. Raises NotFound for a new model that the lab does not know."""
    hour = hour_of(now)
    new = _new(lab, asked)
    meter = meter_of(asset, hour)
    told = measured(lab, meter, hour + 1 - asked.days * 24, hour + 1) if meter else None
    found = _inputs(lab, asset, new, asked, meter, told, hour)
    result = _result(found) if new else None
    life = asked.life_years or LIFE_YEARS[HardwareKind(asset.kind)]
    inputs = None if result is None or isinstance(result, Unknown) else _known(found)
    return Answer(
        asset=asset, new=new, asked=asked, inputs=found, result=result, life_years=life, meter=meter, measured=told,
        use=_query(lab, meter, told), account=_account(asset, hour), measures=_measures(asset, new),
        ways=payback.ways(inputs, life + asked.wait_years, asked.wait_years) if inputs else [],
    )  # fmt: skip


def _new(lab: Lab, asked: Asked) -> HardwareModel | None:
    if asked.new_id is None:
        return None
    new = models_of(lab).filter(pk=asked.new_id, retired_us__isnull=True).first()
    if new is None:
        raise NotFound("There is no such model in the catalogue.", field="new", hint="Search it by name, and choose one.")
    return new


def _measures(asset: Asset, new: HardwareModel | None) -> list[str]:
    if asset.model is None or new is None:
        return []
    return measures_of(performance_of(asset.model.name), performance_of(new.name))


def _query(lab: Lab, meter: Meter | None, told: Measured | None) -> FigureQuery | None:
    """Return the figure of all that was measured."""
    if meter is None or told is None:
        return None
    kind, key = ("device", meter.device.key) if meter.device else ("node", str(meter.place.uuid))
    return FigureQuery("energy_mj", told.from_hour, told.to_hour, kind, key, basis=lab.basis)


def _account(asset: Asset, hour: int) -> amortisation.Account | None:
    """Return what became of the old one's embodied carbon; its balance is what disposing of it now would write off."""
    events = events_of([asset.pk])[asset.pk]
    if not events or events[0].total_ug is None:
        return None
    rows = EmbodiedCharge.objects.filter(asset=asset)
    return amortisation.account(events, [as_charge(row) for row in rows], hour)


def _inputs(
    lab: Lab, asset: Asset, new: HardwareModel | None, asked: Asked, meter: Meter | None, told: Measured | None, hour: int
) -> dict[str, Input]:
    """Return every input: one's own before what was measured, before the catalogue, before what is taken for granted."""
    found = {name: Input(name, Known.exact(value), "yours", "given in the address") for name, value in asked.own.items()}
    found = _use(told) | found
    if "old_mw" not in found and asset.model and asset.model.tdp_mw:
        tdp = asset.model.tdp_mw
        known = Known(tdp, tdp * 6 // 10, tdp)
        found["old_mw"] = Input(
            "old_mw", known, "catalogue", f"rated power: not measured ({asset.model.source})", asset.model.licence
        )
    place = meter.place if meter else None
    for each in (grid(lab, asset, place, hour), pue_of(lab, asset, place, hour)):
        if each:
            found.setdefault(each.field, each)
    if new:
        for each in (making(lab, new), new_power(asset.model, new, found.get("old_mw")), _ratio(asset, new, asked)):
            if each:
                found.setdefault(each.field, each)
    if "old_idle_mw" in found and "new_idle_mw" not in found:
        known = Known.within(found["old_idle_mw"].needed.value, 500_000, 500_000)
        found["new_idle_mw"] = Input("new_idle_mw", known, "assumed", "as the old one's, ±50 %: nobody measured the new one")
    return found


def _use(told: Measured | None) -> dict[str, Input]:
    """Return power and hours as measured. Time that nobody measured counts as off, at best as used like the rest."""
    if told is None:
        return {}
    down, up = METER_ERROR_PPM[EnergyQuality(told.quality).name]
    days = max(1, round(told.hours / 24))
    source = f"measured over {days} day{'' if days == 1 else 's'} ({EnergyQuality(told.quality).name.lower()})"
    found = {}
    for name, power in (("old_mw", told.used_mw), ("old_idle_mw", told.idle_mw)):
        if power is not None:
            found[name] = Input(name, Known.within(power, down, up), "measured", source)
    span_us = told.hours * US_PER_HOUR
    for name, time_us in (("hours", told.used_us), ("idle_hours", told.idle_us)):
        value = time_us * payback.HOURS_PER_YEAR // span_us
        most = max(value, time_us * payback.HOURS_PER_YEAR // told.measured_us) if told.measured_us else value
        found[name] = Input(name, Known(value, value, most), "measured", source + "; what was not measured counts as off")
    return found


def _ratio(asset: Asset, new: HardwareModel, asked: Asked) -> Input | None:
    old, card = (performance_of(model.name) if model else None for model in (asset.model, new))
    known = ratio_of(old, card, asked.by) if old and card else None
    if known is None or old is None or card is None:
        return None
    names = measures_of(old, card)
    chosen = [asked.by] if asked.by else names
    others = [MEASURES[name] for name in names if name not in chosen]
    told = f"{'mean' if len(chosen) > 1 else 'ratio'} by {' and '.join(MEASURES[name] for name in chosen)}"
    rest = ", ±30 %" if len(names) == 1 else f", bounded by {' and '.join(others)}" if others else ", bounded by each"
    return Input("ratio_ppm", known, "catalogue", f"{told}{rest} ({card.source})", card.licence)


def _result(found: dict[str, Input]) -> Payback | Unknown:
    missing = tuple(name for name in payback.NEEDED if name not in found)
    return Unknown(missing) if missing else payback.payback(_known(found))


def _known(found: dict[str, Input]) -> Inputs:
    return Inputs(**{name: each.needed for name, each in found.items()})


def in_years(years: Fraction | None, now: int) -> int | None:
    """Return the time (µs) so many years of 8 760 h from now; None: never."""
    return None if years is None else now + round(years * payback.HOURS_PER_YEAR * US_PER_HOUR)
