"""Reads of the catalogue: models by reported name, and the figure used for each."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import chain

from django.db.models import Q, QuerySet

from apps.accounts.models import Lab
from apps.catalog.choices import HardwareKind
from apps.catalog.matching import match_key, trust
from apps.catalog.mig_profiles import MigCard, parse_mig_cards
from apps.catalog.models import CURRENT, EmbodiedFigure, Evidence, HardwareAlias, HardwareModel
from apps.catalog.packs import DATA
from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable
from apps.core.units import INT64_MAX


def models_of(lab: Lab | None) -> QuerySet[HardwareModel]:
    """Return the models that ``lab`` may see: shipped and its own. None: shipped only."""
    own = Q(lab__isnull=True) if lab is None else Q(lab__isnull=True) | Q(lab=lab)
    return HardwareModel.objects.filter(own)


def figures_of(lab: Lab | None) -> QuerySet[EmbodiedFigure]:
    """Return the figures that ``lab`` may see, superseded ones included."""
    own = Q(lab__isnull=True) if lab is None else Q(lab__isnull=True) | Q(lab=lab)
    return EmbodiedFigure.objects.filter(own)


def model_of(kind: str, name: str, lab: Lab | None = None) -> HardwareModel | None:
    """Return the model named ``name`` by a driver, an operating system or a spreadsheet, or None.

    Names have priority over aliases, models of the lab over shipped ones. Only exact match keys
    count, not similar names.
    """
    return models_named(name, lab, kind=kind).get(kind)


def models_named(name: str, lab: Lab | None = None, kind: str = "") -> dict[str, HardwareModel]:
    """Return the models named ``name``, by kind: as :func:`model_of` for each kind, or one."""
    key = match_key(name)
    if not key:
        return {}
    on_offer = models_of(lab).filter(retired_us__isnull=True)
    if kind:
        on_offer = on_offer.filter(kind=kind)
    further = HardwareAlias.objects.filter(match_key=key).values("model_id")
    named: dict[str, HardwareModel] = {}
    for models in (on_offer.filter(match_key=key), on_offer.filter(pk__in=further)):
        ranked = sorted(models, key=lambda model: (model.lab_id is None, model.pk))
        for model in ranked:
            named.setdefault(model.kind, model)
        if kind and named:
            break
    return named


def match_keys(lab: Lab | None) -> frozenset[str]:
    """Return the match keys of all names and aliases of models that are on offer. A name with
    another key has no model.
    """
    on_offer = models_of(lab).filter(retired_us__isnull=True)
    aliases = HardwareAlias.objects.filter(model__in=on_offer)
    return frozenset(
        chain(*(rows.values_list("match_key", flat=True) for rows in (on_offer, aliases)))
    )


def best_figures(model_ids: Iterable[int], lab: Lab | None) -> dict[int, EmbodiedFigure]:
    """Return the figure used for each model that has one, by model: the most trusted active one."""
    best: dict[int, EmbodiedFigure] = {}
    figures = figures_of(lab).filter(CURRENT, model_id__in=list(model_ids))
    for figure in sorted(figures, key=_trust):
        best.setdefault(figure.model_id, figure)
    return best


def _trust(figure: EmbodiedFigure) -> tuple[int, bool, int, int]:
    return trust(figure.method, figure.lab_id is not None, figure.source_year, figure.pk)


def best_figure(model: HardwareModel, lab: Lab | None) -> EmbodiedFigure | None:
    """Return the figure used for ``model`` in ``lab``: PCF > LCA > parametric > category, own
    before shipped. Or None.
    """
    return best_figures([model.pk], lab).get(model.pk)


@cache
def _defaults() -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the names of the default models of a kind (and category), first choice first."""
    names: dict[tuple[str, str], list[str]] = {}
    with (DATA / "defaults.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            names.setdefault((row["kind"], row["category"]), []).append(row["name"])
    return {key: tuple(model_names) for key, model_names in names.items()}


def category_default(kind: str, category: str = "") -> EmbodiedFigure | None:
    """Return the shipped default figure of a kind, or None.

    It is used if only the kind is known. ``category`` is finer: "hdd" and "ssd" of storage (per
    TB), "switch" of network. It is the first of data/defaults.csv whose pack is loaded.
    """
    names = _defaults().get((kind, category), ())
    figures = EmbodiedFigure.objects.filter(
        CURRENT, lab__isnull=True, model__lab__isnull=True, model__kind=kind, model__name__in=names
    ).select_related("model")
    return min(
        figures, key=lambda figure: (names.index(figure.model.name), _trust(figure)), default=None
    )


def model_by_id(lab: Lab | None, pk: int) -> HardwareModel | None:
    """Return a model that ``lab`` may see, retired ones included, or None."""
    return models_of(lab).filter(pk=pk).first() if pk <= INT64_MAX else None


def figures_of_model(model: HardwareModel, lab: Lab | None) -> list[EmbodiedFigure]:
    """Return all figures of a model that ``lab`` may see.

    Active ones by trust, then superseded ones, newest first. The first active one is used.
    """
    figures = list(
        figures_of(lab)
        .filter(model=model)
        .select_related("uploaded_by", "superseded_by", "evidence")
        .defer("evidence__content")
    )
    return sorted(
        figures,
        key=lambda figure: (
            figure.superseded_us is not None,
            -(figure.superseded_us or 0),
            _trust(figure),
        ),
    )


def figure_of(lab: Lab, pk: int) -> EmbodiedFigure | None:
    """Return a figure that ``lab`` may see, with its model, or None."""
    return figures_of(lab).filter(pk=pk).select_related("model").first()


def evidence_of(lab: Lab, figure_id: int) -> Evidence | None:
    """Return the document of one of the lab's own figures, or None."""
    return (
        Evidence.objects.filter(figure_id=figure_id, figure__lab=lab).first()
        if figure_id <= INT64_MAX
        else None
    )


@dataclass(frozen=True)
class Match:
    """Match of a reported name. ``by``: "model", "category" (only the kind is known), or ""."""

    model: HardwareModel | None
    figure: EmbodiedFigure | None
    by: str


def match(kind: str, name: str, lab: Lab | None, category: str = "") -> Match:
    """Return the model of a reported name with its figure.

    Without one: the default figure of the kind, else no figure.
    """
    model = model_of(kind, name, lab)
    figure = best_figure(model, lab) if model else None
    if figure:
        return Match(model, figure, "model")
    default = category_default(kind, category)
    return Match(model, default, "category" if default else "")


def search(lab: Lab | None, kind: str = "", name: str = "") -> QuerySet[HardwareModel]:
    """Return the active models whose name contains every word of ``name``, by name. Empty: all."""
    models = models_of(lab).filter(retired_us__isnull=True)
    if kind:
        models = models.filter(kind=kind)
    for word in name.split():
        key = match_key(word)
        models = models.filter(
            Q(name__icontains=word) | Q(match_key__contains=key) if key else Q(name__icontains=word)
        )
    return models.order_by("name", "pk")


def parse_search(kind: str, name: str) -> tuple[str, str]:
    """Return a valid kind and search text. Raises InvalidInput."""
    if kind and kind not in HardwareKind.values:
        kinds = ", ".join(HardwareKind.values)
        raise InvalidInput(
            f"{kind[:40]!r} is not a kind of hardware.", field="kind", hint=f"Use one of {kinds}."
        )
    if is_unstorable(name) or len(name) > 200:
        raise InvalidInput(
            "Invalid search text.", field="q", hint="Use at most 200 characters, without NUL."
        )
    return kind, name.strip()


def suggest(kind: str, name: str, limit: int = 10, lab: Lab | None = None) -> list[HardwareModel]:
    """Return up to ``limit`` models for a search text, the exact match before partial ones."""
    exact = model_of(kind, name, lab) if kind else None
    others = [model for model in search(lab, kind, name)[: limit + 1] if model != exact]
    return [*([exact] if exact else []), *others][:limit]


@dataclass(frozen=True)
class HostPower:
    """Default power of a node besides its metered devices."""

    kind: str
    static_mw: int
    low_mw: int
    high_mw: int
    source: str


@cache
def host_powers() -> tuple[HostPower, ...]:
    """Return the shipped defaults. A workstation has none: it is measured or unknown."""
    with (DATA / "host_power.csv").open(newline="", encoding="utf-8") as file:
        return tuple(
            HostPower(
                kind=row["kind"],
                static_mw=int(float(row["static_w"]) * 1000),
                low_mw=int(float(row["low_w"]) * 1000),
                high_mw=int(float(row["high_w"]) * 1000),
                source=row["source"],
            )
            for row in csv.DictReader(file)
        )


@cache
def mig_cards() -> tuple[MigCard, ...]:
    """Return the shipped cards with MIG slices."""
    with (DATA / "mig_profiles.csv").open(newline="", encoding="utf-8") as file:
        return parse_mig_cards(csv.DictReader(file))
