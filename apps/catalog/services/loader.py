"""Load the shipped models, names and figures. A changed figure supersedes the old one."""

from django.db import transaction

from apps.catalog.data_files import Key, Shipped
from apps.catalog.models import CURRENT, SHIPPED, EmbodiedFigure, HardwareAlias, HardwareModel

_SPECIFICATION = (
    "category", "match_key", "vendor", "architecture", "release_year", "tdp_mw", "memory_mib",
    "cores", "threads", "source", "licence", "pack", "retired_us",
)  # fmt: skip
_CONTENT = (
    "manufacture_ug", "transport_ug", "end_of_life_ug", "total_ug", "low_ug", "high_ug",
    "includes_end_of_life", "lifetime_years_typical", "source", "source_year", "licence",
    "confidence", "note",
)  # fmt: skip


@transaction.atomic
def load_catalogue(*, now: int) -> int:
    """Load or update all shipped models and figures. Return the number of models. Idempotent.

    A changed figure is superseded by a new one. Data that is no longer shipped, or is in an
    excluded pack, is retired or superseded, and references to it stay. Concurrent loads are safe.
    """
    shipped = Shipped()
    ids = _load_models(shipped, now)
    _load_aliases(shipped, ids)
    _load_figures(shipped, ids, now)
    return len(shipped.models)


def _load_models(shipped: Shipped, now: int) -> dict[Key, int]:
    """Write new and changed models, retire removed ones. Return the ids."""
    known = {(model.kind, model.name): model for model in HardwareModel.objects.filter(SHIPPED)}
    new = [model for key, model in shipped.models.items() if key not in known]
    changed = []
    for key, model in shipped.models.items():
        old = known.get(key)
        if old and any(getattr(old, part) != getattr(model, part) for part in _SPECIFICATION):
            model.pk = old.pk
            changed.append(model)
    stale_ids = [
        model.pk
        for key, model in known.items()
        if key not in shipped.models and model.retired_us is None
    ]
    HardwareModel.objects.bulk_create(new, batch_size=200, ignore_conflicts=True)
    HardwareModel.objects.bulk_update(changed, _SPECIFICATION, batch_size=50)
    HardwareModel.objects.filter(pk__in=stale_ids).update(retired_us=now)
    rows = HardwareModel.objects.filter(SHIPPED, retired_us__isnull=True).values_list(
        "kind", "name", "pk"
    )
    return {(kind, name): pk for kind, name, pk in rows}


def _load_aliases(shipped: Shipped, ids: dict[Key, int]) -> None:
    alias_pairs = {
        (ids[key], alias) for key, aliases in shipped.aliases.items() for alias in aliases
    }
    known = {
        (model_id, key): pk
        for pk, model_id, key in HardwareAlias.objects.filter(model__lab__isnull=True).values_list(
            "pk", "model_id", "match_key"
        )
    }
    HardwareAlias.objects.filter(
        pk__in=[pk for pair, pk in known.items() if pair not in alias_pairs]
    ).delete()
    new = [
        HardwareAlias(model_id=model_id, match_key=key)
        for model_id, key in sorted(alias_pairs - known.keys())
    ]
    HardwareAlias.objects.bulk_create(new, batch_size=200, ignore_conflicts=True)


def _load_figures(shipped: Shipped, ids: dict[Key, int], now: int) -> None:
    known = {_place(figure): figure for figure in EmbodiedFigure.objects.filter(SHIPPED, CURRENT)}
    new = []
    for key, figure in shipped.figures:
        figure.model_id, figure.uploaded_us = ids[key], now
        old = known.get(_place(figure))
        if old and all(getattr(old, part) == getattr(figure, part) for part in _CONTENT):
            del known[_place(figure)]
        else:
            new.append(figure)
    stale_ids = [figure.pk for figure in known.values()]
    EmbodiedFigure.objects.filter(CURRENT, pk__in=stale_ids).update(superseded_us=now)
    EmbodiedFigure.objects.bulk_create(new, batch_size=200, ignore_conflicts=True)


def _place(figure: EmbodiedFigure) -> tuple[int, str, str, str]:
    """Return the unique key of an active shipped figure: model, pack, method and unit."""
    return figure.model_id, figure.pack, figure.method, figure.unit
