"""Query of the replacement analysis: the new card, and inputs that replace measured ones. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable
from apps.replacement.performance import MEASURES

DAYS = (90, 365)
LONGEST_HORIZON = 30


@dataclass(frozen=True)
class Own:
    """An input that the query can set: the input it replaces, label, unit, integers per unit,
    and bounds.
    """

    field: str
    label: str
    unit: str
    scale: int
    low: str
    high: str


OWN = {
    "te_kg": Own("te_ug", "Embodied carbon, new card", "kg CO₂e", 10**9, "0.001", "1000000"),
    "old_w": Own("old_mw", "Power in use, old card", "W", 1000, "0.1", "100000"),
    "old_idle_w": Own("old_idle_mw", "Idle power, old card", "W", 1000, "0", "100000"),
    "hours": Own("hours", "Hours used per year", "h", 1, "0", "8784"),
    "idle_hours": Own("idle_hours", "Idle hours per year", "h", 1, "0", "8784"),
    "new_w": Own("new_mw", "Power in use, new card", "W", 1000, "0.1", "100000"),
    "new_idle_w": Own("new_idle_mw", "Idle power, new card", "W", 1000, "0", "100000"),
    "ratio": Own(
        "ratio_ppm",
        "Work ratio: new card's hours per old card's hour",
        "",
        1_000_000,
        "0.0001",
        "1000",
    ),
    "memory_gib": Own("memory_mib", "Memory the jobs use", "GiB", 1024, "0", "100000"),
    "pue": Own("pue_ppm", "PUE", "", 1_000_000, "1", "5"),
    "g_per_kwh": Own("ci_ug_per_kwh", "Grid intensity", "g/kWh", 1_000_000, "0.001", "1500"),
}
PARAM_OF = {own.field: name for name, own in OWN.items()}
LABELS = {own.field: own.label for own in OWN.values()}
PARAMETERS = ("new", "days", "by", "life_years", "wait_years", *OWN)


@dataclass(frozen=True)
class ReplacementQuery:
    """A query. ``own``: integers by input, in the units of the formula. ``by`` '': the mean of
    all known measures.
    """

    new_id: int | None
    days: int
    by: str
    own: Mapping[str, int]
    life_years: int | None
    wait_years: int


def parse(params: Mapping[str, str]) -> ReplacementQuery:
    """Return the query of ``params``. An empty value is not set. Raises InvalidInput with the
    field.
    """
    by = params.get("by", "").strip()
    if by and by not in MEASURES:
        raise InvalidInput(
            f"Unknown measure of work {by[:40]!r}.",
            field="by",
            hint=f"Use one of {', '.join(MEASURES)}.",
        )
    return ReplacementQuery(
        new_id=_whole(params, "new", 1, 2**63 - 1, "Use the number of a model in the catalogue."),
        days=_days(params),
        by=by,
        own={
            own.field: own_value
            for name, own in OWN.items()
            if (own_value := _own(params, name, own)) is not None
        },
        life_years=_whole(
            params, "life_years", 1, LONGEST_HORIZON, f"Use whole years, 1 to {LONGEST_HORIZON}."
        ),
        wait_years=_whole(params, "wait_years", 1, 10, "Use whole years, 1 to 10.") or 2,
    )


def parse_valid_part(params: Mapping[str, str]) -> tuple[ReplacementQuery, InvalidInput | None]:
    """Return the query of the valid ``params``, and the error of the first invalid one."""
    valid_params, first = dict(params), None
    while True:
        try:
            return parse(valid_params), first
        except InvalidInput as wrong:
            valid_params.pop(str(wrong.field))
            first = first or wrong


def _days(params: Mapping[str, str]) -> int:
    days = _whole(params, "days", 1, 10_000, "") or DAYS[-1]
    if days not in DAYS:
        raise InvalidInput(
            f"Invalid number of days {days}.",
            field="days",
            hint=f"Use one of {', '.join(map(str, DAYS))}.",
        )
    return days


def _whole(params: Mapping[str, str], name: str, low: int, high: int, hint: str) -> int | None:
    text = params.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 19 or not low <= int(text) <= high:
        raise InvalidInput(f"Invalid value {_message(text)} for {name!r}.", field=name, hint=hint)
    return int(text)


def _own(params: Mapping[str, str], name: str, own: Own) -> int | None:
    text = params.get(name, "").strip().replace(",", ".")
    if not text:
        return None
    try:
        value = Decimal(text)
        if (
            len(text) > 40
            or not value.is_finite()
            or not Decimal(own.low) <= value <= Decimal(own.high)
        ):
            raise InvalidOperation
    except InvalidOperation as error:
        hint = (
            f"{own.label}: use a number from {own.low} to "
            f"{own.high}{' ' + own.unit if own.unit else ''}."
        )
        raise InvalidInput(
            f"Invalid value {_message(text)} for {name!r}.", field=name, hint=hint
        ) from error
    return int(value * own.scale)


def _message(text: str) -> str:
    return "(unprintable)" if is_unstorable(text) else repr(text[:40])
