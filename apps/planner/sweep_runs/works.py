"""The works of a sweep's runs: which are the same, and by which keys earlier ones are found."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from apps.runs.choices import Tier
from apps.runs.fingerprint_parsing import FingerprintIn
from apps.runs.match_keys import Parts, tier_keys
from apps.runs.models import Fingerprint
from apps.runs.services.fingerprints import fingerprint_from_params, parts_of, recipe_of

# Factors of the global batch size. Fingerprints contain their product.
_GLOBAL_BATCH = "global_batch_size"
_PROCESSES = ("world_size", "nproc_per_node", "num_processes")
_DONE_TIERS = (Tier.F1, Tier.F1_WEAK)


@dataclass(frozen=True)
class Duplicate:
    """A run of a sweep that repeats an earlier one. ``is_possible``: their labels differ."""

    point: int
    of: int
    is_possible: bool


def point_fingerprints(points: Sequence[Mapping[str, Any]]) -> list[FingerprintIn]:
    """Return the fingerprint of each run, by its swept parameters alone."""
    return [fingerprint_from_params(point) for point in points]


def duplicates(fingerprints: Sequence[FingerprintIn], ignored: Collection[str]) -> list[Duplicate]:
    """Return the runs with the compared parameters and seeds of an earlier run of the sweep."""
    first: dict[tuple[str, frozenset[str]], int] = {}
    repeated = []
    for number, fingerprint in enumerate(fingerprints):
        work = (
            recipe_of(fingerprint.params, ignored),
            frozenset((fingerprint.seeds or {}).values()),
        )
        of = first.setdefault(work, number)
        if of != number:
            is_possible = fingerprint.labels != fingerprints[of].labels
            repeated.append(Duplicate(number, of, is_possible))
    return repeated


def unknown_parts(base: Fingerprint) -> list[str]:
    """Return the parts of a base without which no earlier run is found."""
    known = {
        "entry": base.entry,
        "code": base.code or base.code_weak,
        "parameters": base.params is not None,
        "data": base.data or base.data_weak,
        "start": base.start or base.start_weak,
        "seeds": base.seeds is not None,
    }
    return [name for name, value in known.items() if not value]


def ambiguous_params(
    points: Sequence[Mapping[str, Any]],
    fingerprints: Sequence[FingerprintIn],
    base: Fingerprint,
) -> list[str]:
    """Return swept parameters whose effect on the fingerprint of the base is unknown.

    A factor of the global batch size: the other factors of the base are known by their product
    only. A seed without value: the base may have one by default.
    """
    has_product = _GLOBAL_BATCH in (base.params or {})
    names: dict[str, None] = {}
    for point, fingerprint in zip(points, fingerprints, strict=True):
        params = fingerprint.params or {}
        is_merged = _GLOBAL_BATCH in params and _GLOBAL_BATCH not in point
        if is_merged or (has_product and any(map(_is_batch_factor, params))):
            names[_GLOBAL_BATCH] = None
        if _number_of_params(fingerprint) < len(point):
            missing = [name for name, value in point.items() if _has_no_effect(name, value)]
            names.update(dict.fromkeys(missing or point))
            break
    return list(names)


def _number_of_params(fingerprint: FingerprintIn) -> int:
    parts = (fingerprint.params, fingerprint.labels, fingerprint.dropped, fingerprint.seeds)
    return sum(len(part or ()) for part in parts)


def _has_no_effect(name: str, value: Any) -> bool:
    return _number_of_params(fingerprint_from_params({name: value})) == 0


def _is_batch_factor(name: str) -> bool:
    last = name.rpartition(".")[2]
    return "batch" in last or "accum" in last or last in _PROCESSES


def new_params(fingerprints: Sequence[FingerprintIn], base: Fingerprint) -> list[str]:
    """Return compared parameters of the sweep that the base does not have."""
    names = {name for fingerprint in fingerprints for name in fingerprint.params or {}}
    dropped = set(base.dropped or ())
    return sorted(names - set(base.params or {}) - dropped)


def done_keys(
    fingerprints: Sequence[FingerprintIn], base: Fingerprint, ignored: Collection[str]
) -> list[list[tuple[Tier, int]]]:
    """Return the keys by which finished runs of the same work are found, for each run."""
    dropped = base.dropped if isinstance(base.dropped, dict) else {}
    params, fixed = base.params or {}, parts_of(base, ignored=ignored)
    seeds_hashes: dict[tuple[tuple[str, str], ...], str] = {}
    keys = []
    for fingerprint in fingerprints:
        swept = fingerprint.params or {}
        defaults = {name for name, digest in swept.items() if dropped.get(name) == digest}
        all_params = {
            name: digest for name, digest in (params | swept).items() if name not in defaults
        }
        seeds = (base.seeds or {}) | (fingerprint.seeds or {})
        seeds_key = tuple(sorted(seeds.items()))
        if seeds_key not in seeds_hashes:
            seeds_hashes[seeds_key] = parts_of(Fingerprint(seeds=seeds), ignored=()).seeds
        recipe = recipe_of(all_params, ignored)
        work = replace(fixed, recipe=recipe, seeds=seeds_hashes[seeds_key], left_out=None)
        keys.append(_keys_of(work))
    return keys


def _keys_of(parts: Parts) -> list[tuple[Tier, int]]:
    return [(tier, key) for tier, key in tier_keys(parts) if tier in _DONE_TIERS]


def family_keys(base: Fingerprint, ignored: Collection[str]) -> list[tuple[Tier, int]]:
    """Return the keys of runs with the entry, data and start of a base."""
    keys = tier_keys(replace(parts_of(base, ignored=ignored), left_out=None))
    return [(tier, key) for tier, key in keys if tier in (Tier.F4, Tier.F4_WEAK)]
