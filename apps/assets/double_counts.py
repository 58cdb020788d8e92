"""Parts of a machine whose embodied carbon is also contained in the figure of a whole."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q

from apps.assets.choices import OPENING, AssetState
from apps.assets.models import Asset, LifecycleEvent
from apps.catalog.contents import LABELS, MEMORY, contents_of


@dataclass(frozen=True)
class DoubleCount:
    """An asset whose figure contains ``contents``, and the parts that are counted with it."""

    whole: Asset
    contents: list[str]
    parts: list[Asset]


def double_counts(asset: Asset) -> list[DoubleCount]:
    """Return what is counted twice in the machine of an asset. At most two queries.

    The machine is the asset with its parts, or the machine that it is built into.
    """
    root = asset.parent_id or asset.pk
    group = list(
        Asset.objects.filter(Q(pk=root) | Q(parent=root), lab=asset.lab, embodied_total_ug__gt=0)
        .exclude(state=AssetState.DISPOSED)
        .select_related("model", "figure__model")
        .order_by("kind", "name", "pk")
    )
    if len(group) < 2:
        return []
    sources = _sources(group)
    found = []
    for whole in group:
        contents = contents_of(whole.figure, sources.get(whole.pk, ""))
        parts = [each for each in group if each is not whole and _part(each) in contents]
        if parts:
            names = sorted({_part(each) for each in parts})
            found.append(DoubleCount(whole, [LABELS[name] for name in names], parts))
    return found


def _sources(group: Sequence[Asset]) -> dict[int, str]:
    """Return the source of the purchase of each asset whose value has no figure."""
    return dict(
        LifecycleEvent.objects.filter(
            asset__in=[asset.pk for asset in group if asset.figure_id is None],
            kind__in=OPENING,
            reversed_by__isnull=True,
        ).values_list("asset_id", "source")
    )


def _part(asset: Asset) -> str:
    """Return the kind of an asset as a part of a machine."""
    is_memory = asset.model is not None and asset.model.category == MEMORY
    return MEMORY if is_memory else asset.kind
