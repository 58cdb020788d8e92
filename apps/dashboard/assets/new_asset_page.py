"""Options of the forms of assets: models of the catalogue that match a text, and records of the
lab.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from apps.accounts.models import Lab
from apps.assets.models import Asset
from apps.assets.selectors import LAB_ITSELF, assets_of, free_meters
from apps.catalog.choices import FigureUnit, HardwareKind
from apps.catalog.models import EmbodiedFigure, HardwareModel
from apps.catalog.selectors import best_figures, models_of, suggest
from apps.core.text import parse_record_number
from apps.dashboard.embodied_format import Amount, amount
from apps.fleet.selectors import sites_of

MAX_MACHINES = 500


@dataclass(frozen=True)
class Offer:
    """A model of the catalogue and the figure that is used for it (None: no figure is
    available).
    """

    model: HardwareModel
    figure: EmbodiedFigure | None
    total: Amount | None
    per: str


@dataclass(frozen=True)
class Offers:
    """Models that match a search text. ``selected``: number of the selected model, which stays
    in the list.
    """

    listed: list[Offer]
    search_text: str
    selected: str

    @property
    def packs(self) -> set[str]:
        return {offer.figure.pack for offer in self.listed if offer.figure}


def offer_of(model: HardwareModel, figure: EmbodiedFigure | None) -> Offer:
    """Return a model with its figure as shown."""
    if figure is None:
        return Offer(model, None, None, "")
    total = amount(figure.total_ug, low=figure.low_ug, high=figure.high_ug)
    return Offer(
        model, figure, total, "" if figure.unit == FigureUnit.ITEM else figure.get_unit_display()
    )


def offers(*, lab: Lab, kind: str, name: str, selected: str = "") -> Offers:
    """Return up to ten models that match ``name``, each with the figure used for it. A fixed
    number of queries.
    """
    kind = kind if kind in HardwareKind.values else ""
    models = suggest(kind, name, 10, lab) if name.strip() and "\x00" not in name else []
    number = parse_record_number(selected)
    if number is not None and number not in {model.pk for model in models}:
        models = [*models_of(lab).filter(pk=number), *models]
    figures = best_figures([model.pk for model in models], lab)
    return Offers(
        [offer_of(model, figures.get(model.pk)) for model in models], name.strip(), selected
    )


@dataclass(frozen=True)
class Option:
    """An option of a form: its value, label, and the record that it selects (None: none)."""

    value: str
    label: str
    record: Any


class LabOptions:
    """Options that a lab's forms offer. Each list is one query, on first use.

    ``asset``: it is not offered as its own machine, its parts are offered, and its own meter is
    available to it.
    """

    def __init__(self, lab: Lab, asset: Asset | None = None) -> None:
        self._lab = lab
        self._asset = asset

    @cached_property
    def projects(self) -> list[Option]:
        return [
            Option(project.slug, project.name, project)
            for project in self._lab.projects.order_by("name")
        ]

    @cached_property
    def owners(self) -> list[Option]:
        return [Option(LAB_ITSELF, "The lab", None), *self.projects]

    @cached_property
    def sites(self) -> list[Option]:
        return [Option(str(site.pk), site.name, site) for site in sites_of(self._lab)]

    @cached_property
    def machines(self) -> list[Option]:
        machines = (
            assets_of(self._lab)
            .filter(kind__in=("server", "workstation"))
            .exclude(state="disposed")
        )
        if self._asset is not None:
            machines = machines.exclude(pk=self._asset.pk)
        return _asset_options(
            machines.select_related("lab", "parent").order_by("name", "pk")[:MAX_MACHINES]
        )

    @cached_property
    def parts(self) -> list[Option]:
        parts = (
            assets_of(self._lab).filter(parent=self._asset) if self._asset else Asset.objects.none()
        )
        return _asset_options(parts.select_related("lab", "parent").order_by("kind", "name", "pk"))

    @cached_property
    def meters(self) -> list[Option]:
        devices, nodes = free_meters(self._lab, self._asset)
        return [
            *(
                Option(f"device:{device.pk}", f"{device} in {device.node.name}", device)
                for device in devices
            ),
            *(Option(f"node:{node.pk}", f"Node {node.name}", node) for node in nodes),
        ]


def _asset_options(assets: Sequence[Asset] | Any) -> list[Option]:
    return [Option(str(asset.pk), asset.name, asset) for asset in assets]
