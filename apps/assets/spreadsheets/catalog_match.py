"""Match a line with the catalogue: model and embodied carbon. Unknown is not zero."""

from dataclasses import dataclass, replace

from apps.accounts.models import Lab
from apps.assets.services.validation import Embodied
from apps.assets.spreadsheets.cells import capacity_in
from apps.catalog.choices import FigureUnit, HardwareKind
from apps.catalog.models import EmbodiedFigure, HardwareModel
from apps.catalog.selectors import Match, match, model_of, suggest

# For a model without a kind: the first kind that has a model of this name.
_ORDER = (
    HardwareKind.GPU, HardwareKind.SERVER, HardwareKind.WORKSTATION, HardwareKind.LAPTOP,
    HardwareKind.STORAGE, HardwareKind.NETWORK, HardwareKind.MONITOR, HardwareKind.CPU,
)  # fmt: skip
MOST_HINTS = 50


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


class Matcher:
    """The catalogue as one lab sees it. Each name is looked up once."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._matches: dict[tuple[str, str, str], Match] = {}
        self._kinds: dict[str, str] = {}
        self._hints: dict[tuple[str, str], str] = {}

    def kind(self, names: tuple[str, ...]) -> str:
        """Return the kind of the first of ``names`` that is a model, '' if none is."""
        for name in names:
            if name not in self._kinds:
                self._kinds[name] = next(
                    (kind for kind in _ORDER if model_of(kind, name, self._lab)), ""
                )
            if self._kinds[name]:
                return self._kinds[name]
        return ""

    def known(
        self, kind: str, names: tuple[str, ...], category: str, capacity_gb: int | None
    ) -> Known:
        """Return the match of ``names``, the most likely name first."""
        best = next(
            (match for name in names if (match := self._match(kind, name, category)).model), None
        )
        best = best or self._match(kind, names[0] if names else "", category)
        if best.figure is None:
            return Known(
                best.model, None, "", f"there is no figure for a {HardwareKind(kind).label.lower()}"
            )
        capacity = capacity_gb or next(
            (size for name in names if (size := capacity_in(name))), None
        )
        embodied = embodied_of(best.figure, capacity)
        if embodied is None:
            unit = best.figure.get_unit_display()
            return Known(
                best.model, None, "", f"its figure is per {unit}, and capacity_tb is missing"
            )
        return Known(best.model, embodied, best.by, self._why(kind, names, best))

    def _match(self, kind: str, name: str, category: str) -> Match:
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


def names_of(kind: str, model: str, manufacturer: str) -> tuple[str, ...]:
    """Return possible catalogue names of a model, most likely first."""
    both = (
        f"{manufacturer} {model}"
        if manufacturer and not model.lower().startswith(manufacturer.lower())
        else ""
    )
    more = f"GeForce {model}" if kind == HardwareKind.GPU and model else ""
    return tuple(dict.fromkeys(name for name in (model, both, more) if name))
