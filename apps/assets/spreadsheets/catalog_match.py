"""Match a line with the catalogue: model and embodied carbon. Unknown is not zero."""

from dataclasses import dataclass, replace

from apps.accounts.models import Lab
from apps.assets.services.validation import Embodied
from apps.assets.spreadsheets.cells import capacity_in, without_capacity
from apps.assets.spreadsheets.role_words import DISK
from apps.catalog.choices import FigureUnit, HardwareKind
from apps.catalog.matching import match_key
from apps.catalog.models import EmbodiedFigure, HardwareModel
from apps.catalog.selectors import (
    Match,
    category_default,
    match,
    match_keys,
    models_named,
    suggest,
)

# For a model without a kind: the first kind that has a model of this name.
_ORDER = (
    HardwareKind.GPU, HardwareKind.SERVER, HardwareKind.WORKSTATION, HardwareKind.LAPTOP,
    HardwareKind.STORAGE, HardwareKind.NETWORK, HardwareKind.MONITOR, HardwareKind.CPU,
)  # fmt: skip
MOST_HINTS = 50
_SHORT_KEY = 3  # such a name ("A16") is of many products
_MIB_PER_GB = 1024


@dataclass(frozen=True)
class Known:
    """Result of a match.

    ``by``: "model", "category" (only the kind is known), or "" (no match) with the reason ``why``.
    """

    model: HardwareModel | None
    embodied: Embodied | None
    by: str
    why: str


def embodied_of(figure: EmbodiedFigure, capacity_gb: int | None) -> Embodied | None:
    """Return the embodied carbon of an asset by a figure.

    None if the figure is per measure and the measure of the asset is unknown.
    """
    if figure.unit == FigureUnit.ITEM:
        return Embodied.of(figure)
    if figure.unit not in {FigureUnit.PER_TB, FigureUnit.PER_GB} or not capacity_gb:
        return None
    per = 1000 if figure.unit == FigureUnit.PER_TB else 1

    def scaled(value: int | None) -> int | None:
        return None if value is None else value * capacity_gb // per

    source = f"{figure.source[:460]} (× {capacity_gb / per:g} {figure.get_unit_display()})"
    return replace(
        Embodied.of(figure),
        total_ug=figure.total_ug * capacity_gb // per,
        low_ug=scaled(figure.low_ug),
        high_ug=scaled(figure.high_ug),
        manufacture_ug=scaled(figure.manufacture_ug),
        transport_ug=scaled(figure.transport_ug),
        end_of_life_ug=scaled(figure.end_of_life_ug),
        source=source,
    )


@dataclass(frozen=True)
class Found:
    """A model of the catalogue. ``name``: the name that matches. ``shortened``: it matches only
    without its capacity.
    """

    model: HardwareModel
    name: str
    shortened: bool


def either_disk(capacity_gb: int) -> Embodied | None:
    """Return the embodied carbon of a disk that is an HDD or an SSD: the mean of both defaults,
    with a range that contains both.
    """
    figures = [category_default(HardwareKind.STORAGE, category) for category in ("hdd", "ssd")]
    values = [embodied_of(figure, capacity_gb) for figure in figures if figure]
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return None
    widest = max(known, key=lambda value: (value.high_ug or 0) - (value.low_ug or 0))
    lows = [value.total_ug if value.low_ug is None else value.low_ug for value in known]
    highs = [value.total_ug if value.high_ug is None else value.high_ug for value in known]
    return Embodied(
        total_ug=sum(value.total_ug for value in known) // len(known),
        low_ug=min(lows),
        high_ug=max(highs),
        figure=widest.figure,
        source="HDD or SSD, not named: mean of both defaults. "
        + "; ".join(value.source[:200] for value in known),
    )


class Matcher:
    """The catalogue as one lab sees it. Each name is looked up once."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._matches: dict[tuple[str, str, str], Match] = {}
        self._models: dict[str, dict[str, HardwareModel]] = {}
        self._hints: dict[tuple[str, str], str] = {}
        self._named_keys = match_keys(lab)

    def kind(self, names: tuple[str, ...]) -> str:
        """Return the kind of the first of ``names`` that is a model, '' if none is."""
        found = next((kinds for name in names if (kinds := self._kinds(name))), {})
        return next((kind for kind in _ORDER if kind in found), "")

    def find(
        self, names: tuple[str, ...], *, kind: str = "", role: str = "", maker: str = ""
    ) -> Found | None:
        """Return the model of the first of ``names`` that has one, also without its capacity.

        ``kind``: only models of this kind. ``role``: the kind that other words of the line name;
        it decides only between models of the same name, and about names of three letters whose
        manufacturer is another.
        """
        shorter = ((without_capacity(name), name) for name in names)
        candidates = [(name, "") for name in names]
        candidates += [(short, name) for short, name in shorter if short and short != name]
        for name, whole in candidates:
            kinds = self._kinds(name)
            order = [kind] if kind else [role, *_ORDER]
            model = next((kinds[each] for each in order if each in kinds), None)
            if model is None or (whole and not _has_memory(model, capacity_in(whole))):
                continue
            is_foreign = maker and model.vendor and maker.lower() not in model.vendor.lower()
            if len(match_key(name)) <= _SHORT_KEY and is_foreign and role != model.kind:
                continue
            return Found(model, name, bool(whole))
        return None

    def _kinds(self, name: str) -> dict[str, HardwareModel]:
        """Return the models of a name, by kind."""
        key = name if len(name) > 100 else name.lower()
        if match_key(name) not in self._named_keys:
            return {}
        if key not in self._models:
            self._models[key] = models_named(name, self._lab)
        return self._models[key]

    def known(
        self, kind: str, names: tuple[str, ...], category: str, capacity_gb: int | None
    ) -> Known:
        """Return the match of ``names``, the most likely name first."""
        best = next(
            (match for name in names if (match := self._match(kind, name, category)).model), None
        )
        best = best or self._match(kind, names[0] if names else "", category)
        capacity = capacity_gb or next(
            (size for name in names if (size := capacity_in(name))), None
        )
        if (kind, category) == (HardwareKind.STORAGE, DISK) and best.by != "model":
            return self._disk(best.model, capacity)
        if best.figure is None:
            what = "this kind" if kind == HardwareKind.OTHER else f"a {HardwareKind(kind).label}"
            return Known(best.model, None, "", f"there is no figure for {what}")
        embodied = embodied_of(best.figure, capacity)
        if embodied is None:
            unit = best.figure.get_unit_display()
            return Known(
                best.model, None, "", f"its figure is per {unit}, and capacity_tb is missing"
            )
        return Known(best.model, embodied, best.by, self._why(kind, names, best))

    def _disk(self, model: HardwareModel | None, capacity_gb: int | None) -> Known:
        """Return the match of a disk whose type is unknown."""
        if not capacity_gb:
            return Known(model, None, "", "a disk has figures per TB, and capacity_tb is missing")
        embodied = either_disk(capacity_gb)
        if embodied is None:
            return Known(model, None, "", "there is no figure for a disk")
        return Known(model, embodied, "category", "typical of its kind: HDD or SSD")

    def _match(self, kind: str, name: str, category: str) -> Match:
        if match_key(name) not in self._named_keys:
            name = ""
        key = (kind, name if len(name) > 100 else name.lower(), category)
        if key not in self._matches:
            self._matches[key] = match(kind, name, self._lab, category)
        return self._matches[key]

    def _why(self, kind: str, names: tuple[str, ...], match: Match) -> str:
        figure = match.figure
        assert figure is not None
        if match.by == "model":
            return figure.get_method_display()
        reason = f"typical of its kind: {figure.model.name}"
        hint = "" if match.model else self._hint(kind, names)
        return (
            f"{reason}{hint}" if not match.model else f"{match.model.name} has no figure; {reason}"
        )

    def _hint(self, kind: str, names: tuple[str, ...]) -> str:
        """Return a question with similar models, since a name like "V100" is ambiguous."""
        name = next((name for name in names if name), "")
        key = (kind, name)
        if key not in self._hints:
            if not name or len(self._hints) >= MOST_HINTS:
                return ""
            like = [model.name for model in suggest(kind, name, 3, self._lab)]
            self._hints[key] = f". Did you mean {' or '.join(like)}?" if like else ""
        return self._hints[key]


def _has_memory(model: HardwareModel, capacity_gb: int | None) -> bool:
    """Return whether a model without the capacity of its name is that product: the memory of a GPU
    tells variants apart.
    """
    if model.kind != HardwareKind.GPU:
        return True
    return capacity_gb is not None and model.memory_mib == capacity_gb * _MIB_PER_GB


def names_of(kind: str, model: str, manufacturer: str) -> tuple[str, ...]:
    """Return possible catalogue names of a model, most likely first. ``kind`` '': unknown."""
    both = (
        f"{manufacturer} {model}"
        if manufacturer and not model.lower().startswith(manufacturer.lower())
        else ""
    )
    names = [model, both]
    if model and kind in {"", HardwareKind.GPU}:
        names.append(f"GeForce {model}")
    if model and kind in {"", HardwareKind.MONITOR}:
        names += [f"{name} Monitor" for name in (both, model) if name]
    return tuple(dict.fromkeys(name for name in names if name))
