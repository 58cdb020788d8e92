"""Verdicts as sentences for a terminal. Pure."""

from collections.abc import Iterable

from apps.core.units import ENERGY, MASS, plain_amount
from apps.preflight.choices import Certainty, Verdict

_OPENING = {
    Verdict.SAME_RUN: "This run is known already",
    Verdict.DECLARED: "Repeated on purpose",
    Verdict.CONCURRENT: "This is running now",
    Verdict.WILL_FAIL: "This will fail again",
    Verdict.RESUME: "This can be resumed",
    Verdict.DUPLICATE: "This was done already",
    Verdict.NEAR: "Nearly this was done already",
    Verdict.SWEEP: "Part of a sweep",
    Verdict.REPLICATE: "This was done with another seed",
}
_POSSIBLE = {
    Verdict.CONCURRENT: "This may be running now",
    Verdict.WILL_FAIL: "This may fail again",
    Verdict.RESUME: "This may be resumed",
    Verdict.DUPLICATE: "This may have been done already",
    Verdict.NEAR: "Nearly this may have been done already",
    Verdict.REPLICATE: "This may have been done with another seed",
}


def opening(verdict: Verdict, certainty: Certainty, unseeded: bool) -> str:
    """Return the beginning of a sentence, '' for a silent verdict."""
    if verdict == Verdict.REPLICATE and unseeded:
        certain = certainty == Certainty.VERIFIED
        return (
            "The same work was done already; neither run sets a seed"
            if certain
            else "The same work may have been done already, without a seed"
        )
    openings = _POSSIBLE if certainty == Certainty.POSSIBLE else _OPENING
    return openings.get(verdict, _OPENING.get(verdict, ""))


def incomparable(unknown: Iterable[str], count: int, last: str) -> str:
    """Return what is not compared, and how often the same code and parameters ran: ``count``
    times, ``last`` being the newest. '' if everything is known.
    """
    names = ", ".join(unknown)
    if not names and not count:
        return ""
    text = f"{names.capitalize()} unknown, not compared." if names else "Data there unknown."
    if not count:
        return f"{text} No run of the same known parts exists."
    times = {1: "once", 2: "twice"}.get(count, f"{count} times")
    return f"{text} The same code and parameters ran {times}: {last}."


def message(
    start: str,
    *,
    who: str,
    day: str,
    state: str,
    energy_mj: int | None,
    is_counted: bool,
    emission_ug: int | None,
    metric: tuple[str, float] | None,
    weak: Iterable[str],
    labels: Iterable[str],
    not_compared: Iterable[str],
    differs: Iterable[str],
) -> str:
    """Return one sentence about the first match, without unknown facts."""
    facts = [f"{who}, {day}, {state}"]
    if energy_mj is not None:
        facts.append(plain_amount(energy_mj, ENERGY))
    elif not is_counted:
        facts.append("energy not counted yet")
    if emission_ug is not None:
        facts.append(f"{plain_amount(emission_ug, MASS)} CO2e")
    if metric is not None:
        facts.append(f"{metric[0]} {metric[1]:.4g}")
    text = f"{start}: {', '.join(facts)}."
    if unverified := ", ".join(weak):
        text += f" Compared by names, sizes and times only: {unverified}."
    if label_names := ", ".join(labels):
        text += f" Another label: {label_names}."
    if missing := ", ".join(not_compared):
        text += f" Not compared: {missing}."
    if difference_names := ", ".join(differs):
        text += f" Differs in {difference_names}."
    return text
