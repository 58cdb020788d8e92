"""Cards of the catalogue by reported name: memory, power limit, peaks, embodied carbon."""

from collections.abc import Iterable
from dataclasses import dataclass

from apps.accounts.models import Lab
from apps.assets.services.validation import LIFE_YEARS
from apps.catalog.choices import FigureUnit, HardwareKind
from apps.catalog.matching import match_key
from apps.catalog.models import EmbodiedFigure, HardwareAlias, HardwareModel
from apps.catalog.selectors import best_figures, models_of
from apps.core.units import HOURS_PER_YEAR
from apps.planner.choices import Precision
from apps.planner.formulas.places import PeakRatio
from apps.planner.formulas.ranges import Range
from apps.replacement.performance import Performance, performance_of, ratio_of

_MIB = 1 << 20


@dataclass(frozen=True)
class Card:
    """A GPU model. None and '' are unknown. ``model_id``: of the catalogue. ``embodied_ug``: of one
    card, over ``life_hours``.
    """

    name: str
    model_id: int | None = None
    memory_bytes: int | None = None
    rated_mw: int | None = None
    release_year: int | None = None
    performance: Performance | None = None
    embodied_ug: Range | None = None
    embodied_source: str = ""
    life_hours: int = 0

    @property
    def key(self) -> str:
        """Return the name for comparison."""
        return match_key(self.name)

    def peak_gflops(self, precision: Precision) -> int | None:
        """Return the peak at a precision: of tensor cores if the computation is mixed."""
        if self.performance is None:
            return None
        if precision == Precision.MIXED and self.performance.tensor:
            return self.performance.tensor
        return self.performance.fp32

    def ratio_to(self, other: "Card") -> PeakRatio | None:
        """Return how many times faster the other card is, None if it is unknown."""
        if self.performance is None or other.performance is None:
            return None
        known = ratio_of(other.performance, self.performance, "")
        return None if known is None else PeakRatio(known.low, known.value, known.high)


def cards_named(lab: Lab, names: Iterable[str]) -> dict[str, Card]:
    """Return {reported name: its card}. Names without a model have a card without figures. Three
    queries.

    Names have priority over aliases, models of the lab over shipped ones.
    """
    keys = {name: match_key(name) for name in names}
    wanted = {key for key in keys.values() if key}
    on_offer = models_of(lab).filter(retired_us__isnull=True, kind=HardwareKind.GPU)
    by_key: dict[str, HardwareModel] = {}
    for model in _ranked(on_offer.filter(match_key__in=wanted)):
        by_key.setdefault(model.match_key, model)
    aliases = HardwareAlias.objects.filter(match_key__in=wanted, model__in=on_offer)
    rows = sorted(
        aliases.select_related("model"), key=lambda row: (row.model.lab_id is None, row.model_id)
    )
    for row in rows:
        by_key.setdefault(row.match_key, row.model)
    figures = best_figures({model.pk for model in by_key.values()}, lab)
    return {
        name: _card(name, by_key[key], figures.get(by_key[key].pk))
        if key in by_key
        else Card(name, performance=performance_of(name))
        for name, key in keys.items()
    }


def _ranked(models: Iterable[HardwareModel]) -> list[HardwareModel]:
    return sorted(models, key=lambda model: (model.lab_id is None, model.pk))


def _card(name: str, model: HardwareModel, figure: EmbodiedFigure | None) -> Card:
    is_usable = figure is not None and figure.unit == FigureUnit.ITEM
    years = LIFE_YEARS[HardwareKind.GPU]
    life_hours = years * HOURS_PER_YEAR
    embodied, source = None, ""
    if figure is not None and is_usable:
        if figure.lifetime_years_typical:
            life_hours = int(figure.lifetime_years_typical * HOURS_PER_YEAR)
        embodied = Range(
            min(figure.low_ug, figure.total_ug),
            figure.total_ug,
            max(figure.high_ug, figure.total_ug),
        )
        source = figure.source
    return Card(
        name=model.name,
        model_id=model.pk,
        memory_bytes=None if model.memory_mib is None else model.memory_mib * _MIB,
        rated_mw=model.tdp_mw or None,
        release_year=model.release_year,
        performance=performance_of(model.name),
        embodied_ug=embodied,
        embodied_source=source,
        life_hours=life_hours,
    )
