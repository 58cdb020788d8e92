"""Text of a duplicate check's response for the terminal. Pure.

Control characters are removed from everything the server sends, so that a name cannot control the
terminal.
"""

from __future__ import annotations

import textwrap
from datetime import datetime, timezone
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from labcarbon_collect.api.preflight import PreflightResponse
from labcarbon_collect.figure_text import emission_text, energy_text

WIDTH = 100
_MAX_MATCHES, _MAX_DIFFERENCES = 3, 5
_COLOURS = {"loud": "31;1", "warn": "33;1", "inform": "36"}
_MAX_INTEGER = 1 << 63
# Methods and bases of fine-tuning, by the server's values.
_METHODS = {
    "head": "a new head on a frozen body",
    "adapters": "low-rank adapters",
    "part": "fine-tuned with some layers frozen",
    "all": "fine-tuned",
    "not_told": "by unreported methods",
}
_BASES = {
    "this": "started from it",
    "architecture": "fine-tuned a model of the same architecture",
    "base_model": "fine-tuned a model of the same base model",
}
_BLOCKING_REASONS = {
    "duplicate": "this run duplicates a finished one",
    "concurrent": "this run duplicates an active one",
    "will_fail": "the same run has already failed",
}
# Why a match is not certain, by key of the response.
_UNCERTAIN = {
    "weak": "{} compared by name, size and time only",
    "labels": "another label: {}",
    "not_compared": "not compared: {}",
}
_NAMED_PARTS = ("params", "labels", "seeds")
_MISSING_VALUES = {
    "absent": "none",
    "not_uploaded": "not uploaded",
    "not_visible": "not visible to you",
}
_UPLOAD_HINT = (
    "  Only hashes of some values were uploaded. To upload those of a command line, start it with: "
    "labcarbon-collect run --full-command"
)
_STATES = {
    "finished": "finished",
    "failed": "failed",
    "killed": "killed",
    "lost": "lost",
    "running": "still running",
}


def format_response(
    response: PreflightResponse,
    *,
    colour: bool = False,
    prefix: str = "labcarbon: ",
    local_values: Optional[Mapping[str, Any]] = None,
) -> List[str]:
    """Return the lines of a response, at most 100 columns except for addresses. Empty if nothing is
    notable. ``local_values``: of this run, known here only.
    """
    if not response.is_notable:
        return []
    if response.verdict == "none" and not response.message:
        return _format_offers(response.offers, colour=colour, prefix=prefix)
    head = _wrap(prefix + plain(response.message), "  ")
    code = _COLOURS.get(response.level)
    if colour and code:
        head = [f"\x1b[{code}m{line}\x1b[0m" for line in head]
    output = list(head)
    matches = [_with_local_values(match, local_values or {}) for match in response.matches]
    for match in matches[:_MAX_MATCHES]:
        output += _format_match(match)
    if any(_has_missing_value(match) for match in matches[:_MAX_MATCHES]):
        output += _wrap(_UPLOAD_HINT, "  ")
    extra = len(response.matches) - _MAX_MATCHES
    if extra > 0:
        output.append(f"  and {extra} similar {'run' if extra == 1 else 'runs'}")
    output += _format_estimate(response.estimate)
    if response.verdict == "none" and response.offers:
        output += _format_offers(response.offers, colour=colour, prefix=prefix)
    return output


def blocking_reason(response: Optional[PreflightResponse]) -> str:
    """Return why a blocked run brings no new result."""
    return _BLOCKING_REASONS.get(
        response.verdict if response is not None else "", "a finished run has the same result"
    )


def plain(text: object, length: int = 500) -> str:
    """Return one printable line."""
    return "".join(letter if letter.isprintable() else " " for letter in str(text))[:length].strip()


def _format_match(match: Mapping[str, Any]) -> List[str]:
    """Return the lines of a match: user, time and place, results, link and differences."""
    summary = [_format_user(match), _format_period(match), _STATES.get(str(match.get("state")), "")]
    if match.get("host"):
        summary.append(f"on {plain(match['host'], 60)}")
    if match.get("project"):
        summary.append(f"project {plain(match['project'], 60)}")
    output = _wrap("  - " + ", ".join(part for part in summary if part), "    ")
    results = " · ".join(
        part
        for part in (
            _format_energy(match),
            _format_carbon(match),
            _format_metric(match.get("metric")),
        )
        if part
    )
    if results:
        output += _wrap(f"    {results}", "    ")
    if match.get("failure"):
        output += _format_failure(match["failure"])
    if isinstance(match.get("url"), str) and match["url"]:
        output.append(f"    {plain(match['url'], 300)}")
    output += _format_differences(match.get("differs"))
    for key, text in _UNCERTAIN.items():
        parts = match.get(key)
        names = (
            [plain(part, 100) for part in parts if isinstance(part, str)]
            if isinstance(parts, list)
            else []
        )
        if names:
            output += _wrap(f"    not certain: {text.format(', '.join(names))}", "    ")
    return output


def _format_user(match: Mapping[str, Any]) -> str:
    return plain(match.get("who") or "somebody", 80)


def _format_period(match: Mapping[str, Any]) -> str:
    started, ended = _parse_time(match.get("started_at")), _parse_time(match.get("ended_at"))
    if started is None:
        return ""
    text = f"{started:%Y-%m-%d %H:%M}"
    if ended is not None:
        text += (
            f" to {ended:%H:%M}"
            if ended.date() == started.date()
            else f" to {ended:%Y-%m-%d %H:%M}"
        )
    return f"{text} UTC"


def _parse_time(text: object) -> Optional[datetime]:
    try:
        moment = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment.astimezone(timezone.utc) if moment.tzinfo else None


def _format_energy(figure: Mapping[str, Any]) -> str:
    energy_mj = _parse_count(figure.get("energy_mj"))
    if energy_mj is not None:
        return energy_text(energy_mj)
    is_waiting = figure.get("energy_state") == "not_counted_yet"
    return "energy not counted yet" if is_waiting else "energy not measured"


def _format_carbon(figure: Mapping[str, Any]) -> str:
    emission_ug = _parse_count(figure.get("emission_ug"))
    return "" if emission_ug is None else emission_text(emission_ug)


def _format_metric(metric: object) -> str:
    if not isinstance(metric, Mapping) or not isinstance(metric.get("value"), (int, float)):
        return ""
    return f"{plain(metric.get('name') or 'metric', 40)} {metric['value']:.4g}"


def _format_failure(failure: object) -> List[str]:
    if not isinstance(failure, Mapping):
        return []
    text = ": ".join(plain(failure[key], 200) for key in ("class", "text") if failure.get(key))
    return _wrap(f"    failure: {text}", "    ") if text else []


def _format_differences(differs: object) -> List[str]:
    differences: Sequence[Any] = (
        [difference for difference in differs if isinstance(difference, Mapping)]
        if isinstance(differs, list)
        else []
    )
    if not differences:
        return []
    parts = [_format_difference(difference) for difference in differences[:_MAX_DIFFERENCES]]
    if len(differences) > _MAX_DIFFERENCES:
        parts.append(f"and {len(differences) - _MAX_DIFFERENCES} more")
    return _wrap("    differs: " + "; ".join(parts), "      ")


def _format_difference(difference: Mapping[str, Any]) -> str:
    name = plain(difference.get("name") or difference.get("part") or "something", 80)
    values = [
        _format_value(difference.get(side), difference.get(f"{side}_state"))
        for side in ("here", "there")
    ]
    if values[0] == values[1]:  # both unknown
        return name if values[0] == "unknown" else f"{name} ({values[0]})"
    return f"{name} {values[0]} here, {values[1]} there"


def _format_value(value: object, state: object) -> str:
    if value is not None:
        return plain(value, 40)
    return _MISSING_VALUES.get(str(state), "unknown")


def _with_local_values(
    match: Mapping[str, Any], local_values: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return a match with the values of this run that were not uploaded."""
    differs = match.get("differs")
    if not isinstance(differs, list):
        return match
    return {**match, "differs": [_with_local_value(part, local_values) for part in differs]}


def _with_local_value(difference: object, local_values: Mapping[str, Any]) -> object:
    if not isinstance(difference, Mapping) or difference.get("here") is not None:
        return difference
    name, part = difference.get("name"), difference.get("part")
    is_local = part in _NAMED_PARTS and isinstance(name, str) and name in local_values
    return {**difference, "here": local_values[str(name)]} if is_local else difference


def _has_missing_value(match: Mapping[str, Any]) -> bool:
    """Return whether the other run has a value that was not uploaded."""
    differs = match.get("differs")
    return isinstance(differs, list) and any(
        isinstance(difference, Mapping) and difference.get("there_state") == "not_uploaded"
        for difference in differs[:_MAX_DIFFERENCES]
    )


def _format_offers(offers: Sequence[Mapping[str, Any]], *, colour: bool, prefix: str) -> List[str]:
    """Return the lines of fine-tuning candidates: name, quality, savings, licence and location."""
    head = _wrap(
        (
            f"{prefix}No similar run exists, but you can fine-tune one of these models instead of "
            "training from scratch:"
        ),
        "  ",
    )
    output = [f"\x1b[{_COLOURS['inform']}m{line}\x1b[0m" for line in head] if colour else head
    for offer in offers:
        summary = [
            plain(offer.get("name"), 80),
            _format_size(offer.get("bytes")),
            plain(offer.get("licence") or "licence unknown", 60),
        ]
        output += _wrap(
            f"  - {', '.join(part for part in summary if part)}: {plain(offer.get('why'), 200)}",
            "    ",
        )
        summary = [
            _format_metric(offer.get("metric")),
            f"created by {plain(offer['who'], 80)}" if offer.get("who") else "",
        ]
        if any(summary):
            output += _wrap("    " + " · ".join(part for part in summary if part), "    ")
        output += _wrap(f"    {_format_savings(offer)}", "    ")
        if isinstance(offer.get("url"), str) and offer["url"]:
            output.append(f"    {plain(offer['url'], 300)}")
    return output


def _format_savings(offer: Mapping[str, Any]) -> str:
    """Return what fine-tuning saves, as measured in the lab: at most the training cost, less the
    unknown part.
    """
    training_mj, cost, saved = (
        _parse_count(offer.get("energy_mj")),
        _parse_spread(offer.get("adapting")),
        _parse_spread(offer.get("saved")),
    )
    evidence = _format_evidence(offer)
    if training_mj is None:
        if cost is None or not evidence:
            return "energy not measured"
        return f"training cost not measured; fine-tuning took {_format_cost(cost, evidence)}"
    training_energy = energy_text(training_mj)
    if cost is None or saved is None or not evidence or saved[2] > training_mj:
        return f"saves at most {training_energy}{_format_upper_bound(offer)}"
    if saved[0] == 0:
        frequency = " in most cases" if saved[2] else ""
        return (
            f"saves nothing{frequency}: fine-tuning took {_format_cost(cost, '')}, training "
            f"{training_energy} ({evidence})"
        )
    carbon = _format_carbon(offer["saved"])
    text = (
        f"saves {_about(_format_relative(saved[0], training_mj))} of the {training_energy} "
        "training cost"
    )
    text += f", {carbon}" if carbon else ""
    return text + _parenthesise(_format_range(saved[1], saved[2], training_mj), evidence)


def _about(amount: str) -> str:
    return amount if amount.startswith("<") else f"about {amount}"


def _format_upper_bound(offer: Mapping[str, Any]) -> str:
    unmeasured = _parse_count(offer.get("adapted_unmeasured"))
    if unmeasured is None or offer.get("adapting") is not None or offer.get("ways") != []:
        return ", less the cost of fine-tuning"  # an older server sends no more
    if unmeasured:
        return (
            f": {unmeasured} {'run' if unmeasured == 1 else 'runs'} of this lab fine-tuned it, "
            "but without a measurement"
        )
    return ": no run of this lab has fine-tuned such a model yet"


def _format_evidence(offer: Mapping[str, Any]) -> str:
    """Return the runs behind a figure and the cost of each method, or "" if they are invalid."""
    adapting, method_rows = offer.get("adapting"), offer.get("ways")
    runs = _parse_count(adapting.get("runs")) if isinstance(adapting, Mapping) else None
    if not runs or not isinstance(adapting, Mapping):
        return ""
    basis = _BASES.get(str(adapting.get("basis")), "fine-tuned such a model")
    text = f"{runs} {'run' if runs == 1 else 'runs'} of this lab {basis}"
    methods = (
        [method for method in method_rows if isinstance(method, Mapping)]
        if isinstance(method_rows, list)
        else []
    )
    method_energies = [
        (str(method.get("way")), _parse_count(method.get("energy_mj")))
        for method in methods[: len(_METHODS)]
    ]
    parts = [
        f"{_METHODS[method_name]} {energy_text(energy_mj)}"
        for method_name, energy_mj in method_energies
        if method_name in _METHODS and energy_mj is not None
    ]
    return (
        f"{text}: {', '.join(parts)}"
        if parts
        and any(
            method_name != "not_told"
            for method_name, _ in method_energies
            if method_name in _METHODS
        )
        else text
    )


def _parse_spread(figure: object) -> Optional[Tuple[int, int, int]]:
    """Return a figure with its minimum and maximum, or None if it is invalid."""
    if not isinstance(figure, Mapping):
        return None
    middle, low, high = (
        _parse_count(figure.get(name)) for name in ("energy_mj", "low_mj", "high_mj")
    )
    if middle is None or low is None or high is None or not low <= middle <= high:
        return None
    return middle, low, high


def _format_cost(cost: Tuple[int, int, int], evidence: str) -> str:
    return energy_text(cost[0]) + _parenthesise(_format_range(cost[1], cost[2], cost[0]), evidence)


def _parenthesise(*parts: str) -> str:
    text = "; ".join(part for part in parts if part)
    return f" ({text})" if text else ""


def _format_range(low_mj: int, high_mj: int, reference_mj: int) -> str:
    """Return minimum to maximum, or "" if they are equal. The unit is left out if the reference
    value has the same.
    """
    if low_mj >= high_mj:
        return ""
    values = [energy_text(value) for value in (low_mj, high_mj, reference_mj)]
    same_unit = len({value.rpartition(" ")[2] for value in values}) == 1
    low, high = (value.rpartition(" ")[0] if same_unit else value for value in values[:2])
    return f"{low} to {high}"


def _format_relative(value_mj: int, reference_mj: int) -> str:
    """Return a figure, without its unit if the reference value has the same."""
    (value, _, unit), (_, _, reference_unit) = (
        energy_text(energy_mj).rpartition(" ") for energy_mj in (value_mj, reference_mj)
    )
    return value if unit == reference_unit else f"{value} {unit}"


def _format_size(count: object) -> str:
    size = _parse_count(count)
    if size is None:
        return ""
    for unit, power in (("TB", 12), ("GB", 9), ("MB", 6), ("kB", 3)):
        if size >= 10**power:
            return f"{size / 10**power:.3g} {unit}"
    return f"{size} B"


def _format_estimate(estimate: Optional[Mapping[str, Any]]) -> List[str]:
    energy_mj = _parse_count((estimate or {}).get("energy_mj"))
    if estimate is None or energy_mj is None:
        return []
    runs = _parse_count(estimate.get("runs")) or 0
    text = (
        f"  Estimate from {runs} similar {'run' if runs == 1 else 'runs'}: "
        f"{_format_energy(estimate)}"
    )
    low_mj, high_mj = _parse_count(estimate.get("low_mj")), _parse_count(estimate.get("high_mj"))
    if low_mj is not None and high_mj is not None:
        text += _parenthesise(_format_range(low_mj, high_mj, energy_mj))
    carbon = _format_carbon(estimate)
    return _wrap(f"{text}, {carbon}." if carbon else f"{text}.", "  ")


def _parse_count(value: object) -> Optional[int]:
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_INTEGER
        else None
    )


def _wrap(text: str, indent: str) -> List[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=True,
        drop_whitespace=True,
    ) or [""]
