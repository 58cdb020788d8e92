"""Contents of the catalogue pages: models with the figure used for each, and one model with all
its figures.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from apps.accounts.models import Lab
from apps.catalog.choices import FigureMethod, FigureUnit, HardwareKind
from apps.catalog.models import EmbodiedFigure, HardwareModel
from apps.catalog.packs import Pack, notices
from apps.catalog.selectors import (
    best_figures,
    category_default,
    figures_of_model,
    parse_search,
    search,
)
from apps.core.errors import InvalidInput
from apps.dashboard.figures import EmbodiedQuantity
from apps.dashboard.formatting import grouped

PAGE_ROWS = 50
_DETAILS = re.compile(r"(?:: | \().*$", re.DOTALL)

METHOD_REASONS = {
    FigureMethod.PCF: (
        "The manufacturer's product carbon footprint takes precedence over all other figures."
    ),
    FigureMethod.LCA: (
        "A life-cycle assessment of this model is used, since the manufacturer published no "
        "carbon footprint."
    ),
    FigureMethod.PARAMETRIC: (
        "The figure is estimated from size and parts, since no assessment is published."
    ),
    FigureMethod.CATEGORY: (
        "The figure is the average of the category, since no figure of this model is available."
    ),
}


@dataclass(frozen=True)
class ModelRow:
    """A model in the list. ``whole`` is None if no figure is available."""

    model: HardwareModel
    figure: EmbodiedFigure | None
    whole: EmbodiedQuantity | None
    low: EmbodiedQuantity | None
    high: EmbodiedQuantity | None

    @property
    def per(self) -> str:
        """Return the unit that the amount refers to, '' for one item."""
        return per(self.figure) if self.figure else ""

    @property
    def source(self) -> str:
        """Return the source, cut at the first bracket or colon. The page of the model shows all
        of it.
        """
        return _DETAILS.sub("", self.figure.source)[:80] if self.figure else ""


@dataclass(frozen=True)
class CatalogPage:
    """A page of the list."""

    rows: list[ModelRow]
    count: int
    kinds: list[tuple[str, str]]
    kind: str
    search_text: str
    earlier: str
    later: str
    csv: str
    notices: list[Pack]

    @property
    def number(self) -> str:
        return grouped(self.count)


def per(figure: EmbodiedFigure) -> str:
    """Return "per TB" and the like, '' for a figure of one item."""
    return "" if figure.unit == FigureUnit.ITEM else f"per {figure.get_unit_display()}"


def _row(model: HardwareModel, figure: EmbodiedFigure | None) -> ModelRow:
    if figure is None:
        return ModelRow(model, None, None, None, None)
    amounts = (
        EmbodiedQuantity(figure, ug) for ug in (figure.total_ug, figure.low_ug, figure.high_ug)
    )
    return ModelRow(model, figure, *amounts)


def model_rows(lab: Lab, models: list[HardwareModel]) -> list[ModelRow]:
    """Return models with the figure used for each. One query."""
    best = best_figures([model.pk for model in models], lab)
    return [_row(model, best.get(model.pk)) for model in models]


def packs_of(rows: list[ModelRow]) -> list[Pack]:
    """Return the data packs whose notice the page must show."""
    return notices(
        {row.model.pack for row in rows} | {row.figure.pack for row in rows if row.figure}
    )


def catalog_page(*, lab: Lab, params: Mapping[str, str]) -> CatalogPage:
    """Return a page of the catalogue. The number of queries does not depend on the number of
    rows.
    """
    kind, search_text = parse_search(params.get("kind", ""), params.get("q", ""))
    text = params.get("page", "1")
    if not (text.isascii() and text.isdecimal()) or not 1 <= len(text) <= 7 or int(text) < 1:
        raise InvalidInput(
            f"Invalid page number {text[:20]!r}.", field="page", hint="Use a whole number from 1."
        )
    page = int(text)
    models = search(lab, kind, search_text)
    rows = model_rows(lab, list(models[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]))
    count = models.count()
    filters = {name: value for name, value in (("kind", kind), ("q", search_text)) if value}

    def address(number: int) -> str:
        return "?" + urlencode({**filters, "page": number})

    return CatalogPage(
        rows=rows,
        count=count,
        kinds=[(value, str(label)) for value, label in HardwareKind.choices],
        kind=kind,
        search_text=search_text,
        earlier=address(page - 1) if page > 1 else "",
        later=address(page + 1) if page * PAGE_ROWS < count else "",
        csv=reverse("catalog-csv") + ("?" + urlencode(filters) if filters else ""),
        notices=packs_of(rows),
    )


@dataclass(frozen=True)
class FigureCard:
    """A figure with its parts. A part is an amount, or the reason why it is missing."""

    figure: EmbodiedFigure
    whole: EmbodiedQuantity
    low: EmbodiedQuantity
    high: EmbodiedQuantity
    parts: list[tuple[str, EmbodiedQuantity | None, str]]
    used: bool
    pack: Pack | None
    per: str


@dataclass(frozen=True)
class ModelPage:
    """One model with all its figures. ``reason``: why the first one is used. ``default``: figure
    of its kind.
    """

    model: HardwareModel
    facts: list[tuple[str, str]]
    cards: list[FigureCard]
    former: list[FigureCard]
    reason: str
    default: ModelRow | None
    notices: list[Pack]


def _end_of_life(figure: EmbodiedFigure) -> str:
    if figure.includes_end_of_life is None:
        return "unknown whether included"
    return "included in total" if figure.includes_end_of_life else "not included"


def _card(figure: EmbodiedFigure, *, used: bool) -> FigureCard:
    def part(ug: int | None) -> EmbodiedQuantity | None:
        return None if ug is None else EmbodiedQuantity(figure, ug)

    return FigureCard(
        figure=figure,
        whole=EmbodiedQuantity(figure, figure.total_ug),
        low=EmbodiedQuantity(figure, figure.low_ug),
        high=EmbodiedQuantity(figure, figure.high_ug),
        parts=[
            ("Manufacture", part(figure.manufacture_ug), "not stated"),
            ("Transport", part(figure.transport_ug), "not stated"),
            ("End of life", part(figure.end_of_life_ug), _end_of_life(figure)),
        ],
        used=used,
        pack=next(iter(notices({figure.pack})), None),
        per=per(figure),
    )


def _facts(model: HardwareModel) -> list[tuple[str, str]]:
    facts = (
        ("Vendor", model.vendor),
        ("Category", model.category.replace("_", " ")),
        ("Architecture", model.architecture),
        ("Released", str(model.release_year or "")),
        ("Rated power", f"{model.tdp_mw / 1000:g} W" if model.tdp_mw else ""),
        ("Memory", f"{model.memory_mib / 1024:g} GiB" if model.memory_mib else ""),
        ("Cores", str(model.cores or "")),
        ("Threads", str(model.threads or "")),
        ("Source", "" if model.lab_id else f"{model.source}, {model.licence}"),
    )
    return [(name, value) for name, value in facts if value]


def _reason(cards: list[FigureCard]) -> str:
    if not cards:
        return ""
    used, others = cards[0].figure, [card.figure for card in cards[1:]]
    reason = METHOD_REASONS[FigureMethod(used.method)]
    if any(other.method == used.method for other in others):
        reason += (
            " Among figures of one method, the lab's own figure and then the newest source is used."
        )
    return reason


def model_page(*, lab: Lab, model: HardwareModel) -> ModelPage:
    """Return one model. The number of queries does not depend on the number of figures."""
    figures = figures_of_model(model, lab)
    cards = [
        _card(figure, used=i == 0)
        for i, figure in enumerate(f for f in figures if f.superseded_us is None)
    ]
    former = [_card(figure, used=False) for figure in figures if figure.superseded_us is not None]
    default = (
        None
        if cards
        else category_default(model.kind, model.category) or category_default(model.kind)
    )
    packs = (
        {card.figure.pack for card in (*cards, *former)}
        | {model.pack}
        | ({default.pack} if default else set())
    )
    return ModelPage(
        model=model,
        facts=_facts(model),
        cards=cards,
        former=former,
        reason=_reason(cards),
        default=_row(default.model, default) if default else None,
        notices=notices(packs),
    )
