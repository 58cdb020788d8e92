"""The server's answer about earlier runs, as a person reads it in a terminal. Pure.

Whatever the server sends is written without control characters: a name must not be able to repaint a terminal.
"""

from __future__ import annotations

import textwrap
from datetime import datetime, timezone
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from labcarbon_collect.api.preflight import Answer
from labcarbon_collect.totals import MJ_PER_KWH, three_digits

WIDTH = 100
_SHOWN_MATCHES, _SHOWN_DIFFERENCES = 3, 5
_COLOURS = {"loud": "31;1", "warn": "33;1", "inform": "36"}
_MOST = 1 << 63
_ENERGY = ((MJ_PER_KWH, "kWh"), (3_600_000, "Wh"), (3_600, "mWh"))
_MASS = ((1_000_000_000, "kg"), (1_000_000, "g"), (1_000, "mg"))
# How a model was adapted, and what was: as the server's words are told.
_WAYS = {
    "head": "a new head on a frozen body",
    "adapters": "low-rank adapters",
    "part": "fine-tuned with some layers frozen",
    "all": "fine-tuned",
    "not_told": "in ways not told",
}
_BASES = {
    "this": "began from it",
    "architecture": "adapted a model of the same architecture",
    "base_model": "adapted a model of the same base model",
}
_ENDED = {
    "finished": "finished",
    "failed": "failed",
    "killed": "killed",
    "lost": "lost sight of",
    "running": "still running",
}


def lines(answer: Answer, *, colour: bool = False, prefix: str = "labcarbon: ") -> List[str]:
    """The answer, no line longer than 100 columns but for an address; empty where there is nothing worth saying."""
    if not answer.worth_saying:
        return []
    if answer.verdict == "none":
        return _offers(answer.reuse, colour=colour, prefix=prefix)
    head = _wrapped(prefix + plain(answer.message), "  ")
    code = _COLOURS.get(answer.level)
    if colour and code:
        head = [f"\x1b[{code}m{line}\x1b[0m" for line in head]
    told = list(head)
    for match in answer.matches[:_SHOWN_MATCHES]:
        told += _match(match)
    more = len(answer.matches) - _SHOWN_MATCHES
    if more > 0:
        told.append(f"  and {more} more like {'it' if more == 1 else 'these'}")
    return told + _estimate(answer.estimate)


def plain(text: object, length: int = 500) -> str:
    """One printable line."""
    return "".join(letter if letter.isprintable() else " " for letter in str(text))[:length].strip()


def _match(match: Mapping[str, Any]) -> List[str]:
    """Who, when and where; what it took and came to; where to look; what differs."""
    about = [_who(match), _when(match), _ENDED.get(str(match.get("state")), "")]
    if match.get("host"):
        about.append(f"on {plain(match['host'], 60)}")
    if match.get("project"):
        about.append(f"project {plain(match['project'], 60)}")
    told = _wrapped("  - " + ", ".join(part for part in about if part), "    ")
    took = " · ".join(part for part in (_energy(match), _carbon(match), _metric(match.get("metric"))) if part)
    if took:
        told += _wrapped(f"    {took}", "    ")
    if match.get("failure"):
        told += _failure(match["failure"])
    if isinstance(match.get("url"), str) and match["url"]:
        told.append(f"    {plain(match['url'], 300)}")
    told += _differences(match.get("differs"))
    parts = match.get("weak")
    weak = [plain(part, 20) for part in parts if isinstance(part, str)] if isinstance(parts, list) else []
    if weak:
        told += _wrapped(f"    not certain: {', '.join(weak)} known by names, sizes and times only", "    ")
    return told


def _who(match: Mapping[str, Any]) -> str:
    return plain(match.get("who") or "somebody", 80)


def _when(match: Mapping[str, Any]) -> str:
    begun, ended = _moment(match.get("started_at")), _moment(match.get("ended_at"))
    if begun is None:
        return ""
    text = f"{begun:%Y-%m-%d %H:%M}"
    if ended is not None:
        text += f" to {ended:%H:%M}" if ended.date() == begun.date() else f" to {ended:%Y-%m-%d %H:%M}"
    return f"{text} UTC"


def _moment(text: object) -> Optional[datetime]:
    try:
        moment = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment.astimezone(timezone.utc) if moment.tzinfo else None


def _energy(told: Mapping[str, Any]) -> str:
    energy_mj = _whole(told.get("energy_mj"))
    return "energy not measured" if energy_mj is None else _scaled(energy_mj, _ENERGY)


def _carbon(told: Mapping[str, Any]) -> str:
    emission_ug = _whole(told.get("emission_ug"))
    return "" if emission_ug is None else f"{_scaled(emission_ug, _MASS)} CO2e"


def _scaled(value: int, scales: Sequence[Tuple[int, str]]) -> str:
    """A figure with three digits in the largest unit of which it is one at least; nought in the first."""
    size, unit = next((scale for scale in scales if value >= scale[0]), scales[-1]) if value else scales[0]
    return f"{three_digits(value / size)} {unit}"


def _metric(metric: object) -> str:
    if not isinstance(metric, Mapping) or not isinstance(metric.get("value"), (int, float)):
        return ""
    return f"{plain(metric.get('name') or 'metric', 40)} {metric['value']:.4g}"


def _failure(failure: object) -> List[str]:
    if not isinstance(failure, Mapping):
        return []
    said = ": ".join(plain(failure[key], 200) for key in ("class", "text") if failure.get(key))
    return _wrapped(f"    it failed: {said}", "    ") if said else []


def _differences(differs: object) -> List[str]:
    found: Sequence[Any] = [each for each in differs if isinstance(each, Mapping)] if isinstance(differs, list) else []
    if not found:
        return []
    said = [_difference(each) for each in found[:_SHOWN_DIFFERENCES]]
    if len(found) > _SHOWN_DIFFERENCES:
        said.append(f"and {len(found) - _SHOWN_DIFFERENCES} more")
    return _wrapped("    differs: " + "; ".join(said), "      ")


def _difference(differs: Mapping[str, Any]) -> str:
    name = plain(differs.get("name") or differs.get("part") or "something", 80)
    here, there = differs.get("here"), differs.get("there")
    if here is None and there is None:
        return name
    return f"{name} {_value(here)} here, {_value(there)} there"


def _value(value: object) -> str:
    return "not told" if value is None else plain(value, 40)


def _offers(offers: Sequence[Mapping[str, Any]], *, colour: bool, prefix: str) -> List[str]:
    """What could be adapted instead: which, how good, what that saves, under which licence, and where it is."""
    head = _wrapped(
        f"{prefix}nothing like this was run before, but you may adapt what is there instead of training anew:", "  "
    )
    told = [f"\x1b[{_COLOURS['inform']}m{line}\x1b[0m" for line in head] if colour else head
    for offer in offers:
        about = [
            plain(offer.get("name"), 80),
            _size(offer.get("bytes")),
            plain(offer.get("licence") or "licence not told", 60),
        ]
        told += _wrapped(f"  - {', '.join(part for part in about if part)}: {plain(offer.get('why'), 200)}", "    ")
        about = [_metric(offer.get("metric")), f"made by {plain(offer['who'], 80)}" if offer.get("who") else ""]
        if any(about):
            told += _wrapped("    " + " · ".join(part for part in about if part), "    ")
        told += _wrapped(f"    {_saves(offer)}", "    ")
        if isinstance(offer.get("url"), str) and offer["url"]:
            told.append(f"    {plain(offer['url'], 300)}")
    return told


def _saves(offer: Mapping[str, Any]) -> str:
    """What adapting it saves, by runs that were measured there; no more than making it took, less what is not known."""
    made_mj, took, saved = _whole(offer.get("energy_mj")), _spread(offer.get("adapting")), _spread(offer.get("saved"))
    by = _by(offer)
    if made_mj is None:
        if took is None or not by:
            return "energy not measured"
        return f"what making it took was not measured; adapting took {_about(took, by)}"
    made = _scaled(made_mj, _ENERGY)
    if took is None or saved is None or not by or saved[2] > made_mj:
        return f"saves at most {made}{_why_at_most(offer)}"
    if saved[0] == 0:
        often = " as a rule" if saved[2] else ""
        return f"saves nothing{often}: adapting took {_about(took, '')}, making it {made} ({by})"
    carbon = _carbon(offer["saved"])
    text = f"saves about {_beside(saved[0], made_mj)} of the {made} that making it took{f', {carbon}' if carbon else ''}"
    return text + _in_brackets(_range(saved[1], saved[2], made_mj), by)


def _why_at_most(offer: Mapping[str, Any]) -> str:
    unmeasured = _whole(offer.get("adapted_unmeasured"))
    if unmeasured is None or offer.get("adapting") is not None or offer.get("ways") != []:
        return ", less what adapting it takes"  # an older server knows no more
    if unmeasured:
        return f": {unmeasured} {'run' if unmeasured == 1 else 'runs'} here adapted it, but nobody measured that"
    return ": no run here is known to have adapted one yet (a new head on its frozen body, or fine-tuning)"


def _by(offer: Mapping[str, Any]) -> str:
    """Which runs tell it, and what each way took; empty where that cannot be understood."""
    adapting, told = offer.get("adapting"), offer.get("ways")
    runs = _whole(adapting.get("runs")) if isinstance(adapting, Mapping) else None
    if not runs or not isinstance(adapting, Mapping):
        return ""
    text = f"{runs} {'run' if runs == 1 else 'runs'} here {_BASES.get(str(adapting.get('basis')), 'adapted such a model')}"
    ways = [each for each in told if isinstance(each, Mapping)] if isinstance(told, list) else []
    known = [(str(each.get("way")), _whole(each.get("energy_mj"))) for each in ways[: len(_WAYS)]]
    said = [f"{_WAYS[way]} {_scaled(took, _ENERGY)}" for way, took in known if way in _WAYS and took is not None]
    return f"{text}: {', '.join(said)}" if said and any(way != "not_told" for way, _ in known if way in _WAYS) else text


def _spread(told: object) -> Optional[Tuple[int, int, int]]:
    """A figure with the least and the most; None for what is none."""
    if not isinstance(told, Mapping):
        return None
    middle, low, high = (_whole(told.get(name)) for name in ("energy_mj", "low_mj", "high_mj"))
    if middle is None or low is None or high is None or not low <= middle <= high:
        return None
    return middle, low, high


def _about(took: Tuple[int, int, int], by: str) -> str:
    return _scaled(took[0], _ENERGY) + _in_brackets(_range(took[1], took[2], took[0]), by)


def _in_brackets(*parts: str) -> str:
    said = "; ".join(part for part in parts if part)
    return f" ({said})" if said else ""


def _range(low_mj: int, high_mj: int, beside_mj: int) -> str:
    """From the least to the most, empty where they are one; without units that are those of what it stands beside."""
    if low_mj >= high_mj:
        return ""
    told = [_scaled(each, _ENERGY) for each in (low_mj, high_mj, beside_mj)]
    alike = len({each.partition(" ")[2] for each in told}) == 1
    low, high = (each.partition(" ")[0] if alike else each for each in told[:2])
    return f"{low} to {high}"


def _beside(value_mj: int, other_mj: int) -> str:
    """A figure, without its unit where that is the other's as well."""
    (value, unit), (_, other) = (_scaled(each, _ENERGY).split(" ") for each in (value_mj, other_mj))
    return value if unit == other else f"{value} {unit}"


def _size(count: object) -> str:
    size = _whole(count)
    if size is None:
        return ""
    for unit, power in (("TB", 12), ("GB", 9), ("MB", 6), ("kB", 3)):
        if size >= 10**power:
            return f"{size / 10**power:.3g} {unit}"
    return f"{size} B"


def _estimate(estimate: Optional[Mapping[str, Any]]) -> List[str]:
    energy_mj = _whole((estimate or {}).get("energy_mj"))
    if estimate is None or energy_mj is None:
        return []
    runs = _whole(estimate.get("runs")) or 0
    text = f"  By {runs} {'run' if runs == 1 else 'runs'} like it, it takes about {_energy(estimate)}"
    low_mj, high_mj = _whole(estimate.get("low_mj")), _whole(estimate.get("high_mj"))
    if low_mj is not None and high_mj is not None:
        text += _in_brackets(_range(low_mj, high_mj, energy_mj))
    carbon = _carbon(estimate)
    return _wrapped(f"{text}, {carbon}." if carbon else f"{text}.", "  ")


def _whole(value: object) -> Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST else None


def _wrapped(text: str, indent: str) -> List[str]:
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=True, drop_whitespace=True
    ) or [""]
