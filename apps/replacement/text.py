"""The answer of replace-or-keep in one sentence: the same on the page and over the API."""

from datetime import tzinfo
from fractions import Fraction

from apps.core.clock import utc
from apps.replacement.payback import Payback, Unknown
from apps.replacement.query import LABELS
from apps.replacement.services import CENTURY, GONE, KEEP, NEVER, REPLACE, Answer, in_years

_SPELT = frozenset("AEFHILMNORSX")  # letters whose names begin with a vowel


def an(name: str) -> str:
    """Return a name with its article: an NVIDIA …, a Tesla …, an H100 …"""
    first = name.split(" ", 1)[0].split("-", 1)[0]
    spelt = first.isupper() or any(letter.isdigit() for letter in first)
    vowel = first[:1] in _SPELT if spelt else first[:1].lower() in "aeiou"
    return f"{'an' if vowel else 'a'} {name}"


def years(value: Fraction | None) -> str:
    """Return years in words: '11.3', '0.42', 'more than 100', 'never'."""
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


def range_years(found: Payback) -> str:
    """Return the range: '6.2 – never'."""
    return f"{years(found.low)} – {years(found.high)}"


def sentence(answer: Answer, now: int, zone: tzinfo) -> str:
    """Return the answer in one sentence."""
    if answer.verdict == GONE:
        return "It is disposed of: there is nothing to replace."
    if answer.new is None or answer.result is None:
        return "Which card would take its place?"
    card = an(answer.new.name)
    found = answer.result
    if isinstance(found, Unknown):
        lacking = ", ".join(_within(LABELS[name].partition(":")[0]) for name in found.missing)
        return f"Nobody can tell yet whether {card} would pay back. Not known: {lacking}."
    told = {REPLACE: _replace, KEEP: _keep, NEVER: _never}[answer.verdict](answer, found, card, now, zone)
    return told + (" The range leaves it open." if answer.open else "")


def _within(label: str) -> str:
    """Return a label as it reads within a sentence."""
    return label if label.isupper() else label[:1].lower() + label[1:]


def _replace(answer: Answer, found: Payback, card: str, now: int, zone: tzinfo) -> str:
    low, high = when(found.low, now, zone), when(found.high, now, zone)
    return f"Replace it: {card} in its place pays back by {when(found.years, now, zone)} ({low} – {high})."


def _keep(answer: Answer, found: Payback, card: str, now: int, zone: tzinfo) -> str:
    life = f"the {answer.life_years} year{'' if answer.life_years == 1 else 's'} it would serve"
    length = f"{years(found.years)} years ({range_years(found)})"
    return f"Keep it: {card} in its place would pay back in {length}, longer than {life}."


def _never(answer: Answer, found: Payback, card: str, now: int, zone: tzinfo) -> str:
    little = "no carbon in use, so" if found.years is None else "so little carbon in use"
    best = "not even at the best end of the range" if found.low is None else f"at best in {years(found.low)} years"
    return f"Never: {card} in its place would save {little} that its making is not paid back, {best}. Keep it."
