"""The form of a new asset: what the catalogue offers for what is typed, and the choices of the lab."""

from dataclasses import dataclass

from apps.accounts.models import Lab
from apps.assets.choices import Amortisation
from apps.assets.models import Asset
from apps.assets.selectors import LAB_ITSELF, assets_of, free_meters
from apps.assets.services.validation import LIFE_YEARS
from apps.catalog.choices import FigureUnit, HardwareKind
from apps.catalog.models import EmbodiedFigure, HardwareModel
from apps.catalog.selectors import best_figures, models_of, suggest
from apps.core.text import parse_record_number
from apps.dashboard.embodied_format import Amount, amount
from apps.fleet.models import Device, Node, Site
from apps.fleet.selectors import sites_of

MAX_MACHINES = 500


@dataclass(frozen=True)
class Offer:
    """A model of the catalogue and the figure that is used for it (None: none is known)."""

    model: HardwareModel
    figure: EmbodiedFigure | None
    total: Amount | None
    per: str


@dataclass(frozen=True)
class Offers:
    """What the catalogue has for what was typed; ``chosen`` is kept while others are searched."""

    listed: list[Offer]
    search_text: str
    selected: str

    @property
    def packs(self) -> set[str]:
        return {offer.figure.pack for offer in self.listed if offer.figure}


@dataclass(frozen=True)
class Choices:
    """What of the lab a form offers."""

    kinds: list[tuple[str, str]]
    years: list[tuple[str, int]]
    owners: list[tuple[str, str]]
    sites: list[Site]
    machines: list[Asset]
    devices: list[Device]
    nodes: list[Node]
    ways: list[tuple[str, str]]


def offer_of(model: HardwareModel, figure: EmbodiedFigure | None) -> Offer:
    """Return a model with its figure as shown."""
    if figure is None:
        return Offer(model, None, None, "")
    total = amount(figure.total_ug, low=figure.low_ug, high=figure.high_ug)
    return Offer(model, figure, total, "" if figure.unit == FigureUnit.ITEM else figure.get_unit_display())


def offers(*, lab: Lab, kind: str, name: str, selected: str = "") -> Offers:
    """Return up to ten models for what somebody types, each with the figure that would be used. A fixed number of
    queries."""
    kind = kind if kind in HardwareKind.values else ""
    models = suggest(kind, name, 10, lab) if name.strip() and "\x00" not in name else []
    number = parse_record_number(selected)
    if number is not None and number not in {model.pk for model in models}:
        models = [*models_of(lab).filter(pk=number), *models]
    figures = best_figures([model.pk for model in models], lab)
    return Offers([offer_of(model, figures.get(model.pk)) for model in models], name.strip(), selected)


def choices(lab: Lab, ways: dict[str, str], asset: Asset | None = None) -> Choices:
    """Return the choices of a lab's forms; ``asset`` is not offered as its own machine, and its own meter is free to it."""
    machines = assets_of(lab).filter(kind__in=("server", "workstation")).exclude(state="disposed").order_by("name", "pk")
    if asset is not None:
        machines = machines.exclude(pk=asset.pk)
    devices, nodes = free_meters(lab, asset)
    return Choices(
        kinds=list(HardwareKind.choices),
        years=[(kind.label, years) for kind, years in LIFE_YEARS.items()],
        owners=[(LAB_ITSELF, "The lab itself"), *lab.projects.order_by("name").values_list("slug", "name")],
        sites=list(sites_of(lab)),
        machines=list(machines[:MAX_MACHINES]),
        devices=devices,
        nodes=nodes,
        ways=list(ways.items()),
    )


AMORTISATIONS = list(Amortisation.choices)
