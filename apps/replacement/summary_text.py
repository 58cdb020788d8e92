"""The result of the replacement analysis in one sentence, on the page and in the API."""

from datetime import tzinfo
from fractions import Fraction

from apps.core.clock import utc
from apps.replacement.payback import Payback, Unknown
from apps.replacement.query import LABELS
from apps.replacement.requirements import UNCERTAIN, UNMET
from apps.replacement.requirements import UNKNOWN as NOT_COMPARED
from apps.replacement.services import (
    CENTURY,
    DISPOSED,
    IMPOSSIBLE,
    KEEP,
    NEVER,
    OPEN,
    REPLACE,
    ReplacementAnalysis,
    in_years,
    is_never,
)

_SPELT = frozenset("AEFHILMNORSX")  # letters whose names begin with a vowel


def an(name: str) -> str:
    """Return a name with its article: an NVIDIA …, a Tesla …, an H100 …"""
    first = name.split(" ", 1)[0].split("-", 1)[0]
    spelt = first.isupper() or any(letter.isdigit() for letter in first)
    vowel = first[:1] in _SPELT if spelt else first[:1].lower() in "aeiou"
    return f"{'an' if vowel else 'a'} {name}"


def years(value: Fraction | None) -> str:
    """Return years as text: '11.3', '0.42', 'more than 100', 'never'."""
    if value is None:
        return "never"
    if value > CENTURY:
        return f"more than {CENTURY}"
    places = 2 if value < 1 else 1
    return f"{float(value):.{places}f}"


def when(value: Fraction | None, now: int, zone: tzinfo) -> str:
    """Return the month in so many years: 'May 2028'; 'never'."""
    if value is None:
        return "never"
    if value > CENTURY:
        return f"in more than {CENTURY} years"
    moment = in_years(value, now)
    assert moment is not None
    return f"{utc(moment).astimezone(zone):%b %Y}"


def range_years(payback: Payback) -> str:
    """Return the range: '6.2 – never'."""
    return f"{years(payback.low)} – {years(payback.high)}"


def sentence(analysis: ReplacementAnalysis, now: int, zone: tzinfo) -> str:
    """Return the result in one sentence."""
    if analysis.verdict == DISPOSED:
        return "The asset is disposed of."
    if analysis.new is None or analysis.result is None:
        return "Choose a new card."
    card = an(analysis.new.name)
    if analysis.verdict == IMPOSSIBLE:
        first, *others = analysis.with_state(UNMET)
        return f"Not possible: {card} {first.clause}{_others(len(others))}."
    payback = analysis.result
    if isinstance(payback, Unknown):
        lacking = ", ".join(_within(LABELS[name].partition(":")[0]) for name in payback.missing)
        return f"Payback time of {card}: unknown. Missing: {lacking}."
    text = {REPLACE: _replace, KEEP: _keep, NEVER: _never, OPEN: _open}[analysis.verdict](
        analysis, payback, card, now, zone
    )
    if analysis.open and analysis.verdict != OPEN:
        text += " The range includes both outcomes."
    unknown = [_within(each.label) for each in analysis.with_state(NOT_COMPARED)]
    return text + (f" Not compared: {', '.join(unknown)}." if unknown else "")


def _others(number: int) -> str:
    """Return how many other requirements are not met, as the end of a sentence."""
    if not number:
        return ""
    return f"; {number} other requirement{' is' if number == 1 else 's are'} not met"


def _within(label: str) -> str:
    """Return a label as used within a sentence."""
    return label if label.isupper() else label[:1].lower() + label[1:]


def _replace(
    analysis: ReplacementAnalysis, payback: Payback, card: str, now: int, zone: tzinfo
) -> str:
    low, high = when(payback.low, now, zone), when(payback.high, now, zone)
    return f"Replace: {card} pays back by {when(payback.years, now, zone)} ({low} – {high})."


def _open(
    analysis: ReplacementAnalysis, payback: Payback, card: str, now: int, zone: tzinfo
) -> str:
    """Return why neither outcome is certain: the range, or a requirement that may not be met."""
    clauses = "; it ".join(each.clause for each in analysis.with_state(UNCERTAIN))
    length = f"pays back in {years(payback.years)} years"
    if analysis.open and is_never(payback.high):
        text = (
            f"does not pay back, but the range begins at {years(payback.low)} years"
            if is_never(payback.years)
            else f"{length}, but the range runs to never ({range_years(payback)})"
        )
        return f"Leave it open: {card} {text}{'; it ' + clauses if clauses else ''}."
    return f"Leave it open: {card} {length}, but it {clauses}."


def _keep(
    analysis: ReplacementAnalysis, payback: Payback, card: str, now: int, zone: tzinfo
) -> str:
    life = (
        f"its service life of {analysis.life_years} year{'' if analysis.life_years == 1 else 's'}"
    )
    length = f"{years(payback.years)} years ({range_years(payback)})"
    return f"Keep: {card} would pay back in {length}, longer than {life}."


def _never(
    analysis: ReplacementAnalysis, payback: Payback, card: str, now: int, zone: tzinfo
) -> str:
    saving = "saves no carbon in use" if payback.years is None else "saves too little carbon in use"
    best = (
        "not even at the best end of the range"
        if payback.low is None
        else f"at best in {years(payback.low)} years"
    )
    return f"Keep: {card} {saving} to pay back its embodied carbon ({best})."
