"""Keys of a run's tiers (docs/fingerprint.md): common parts of runs as numbers for an index.
Pure.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from apps.runs.choices import Tier

_BITS = 63  # a key is a signed 64-bit integer of the database, never negative
_OWN_BITS = 32  # of a left-out key; the rest are its family's


@dataclass(frozen=True)
class Parts:
    """The compared parts of a run. '' and None are unknown; ``seeds`` is the hash of all seeds.

    ``recipe`` is the sum of the compared parameters, ``left_out`` the sums without one parameter,
    by its name.
    """

    entry: str = ""
    code: str = ""
    code_weak: str = ""
    code_normal: str = ""
    recipe: str = ""
    left_out: Mapping[str, str] | None = None
    seeds: str = ""
    data: str = ""
    data_weak: str = ""
    start: str = ""
    start_weak: str = ""

    def weakened(self) -> "Parts":
        """Return the parts for weak tiers: weak hashes, or verified ones where there is no weak
        hash.
        """
        return Parts(
            entry=self.entry,
            code=self.code_weak or self.code,
            code_normal=self.code_normal,
            recipe=self.recipe,
            left_out=self.left_out,
            seeds=self.seeds,
            data=self.data_weak or self.data,
            start=self.start_weak or self.start,
        )


def tier_keys(parts: Parts) -> list[tuple[Tier, int]]:
    """Return (tier, key) for each key that a run has; keys with an unknown part are omitted.

    LEFT_OUT has a key for each parameter and one for all of them, so that a run with one parameter
    more is found as well.
    """
    return [*_keys(parts, weak=0), *_keys(parts.weakened(), weak=1)]


def _keys(parts: Parts, *, weak: int) -> Iterator[tuple[Tier, int]]:
    rest = (parts.data, parts.start)
    tier_parts = (
        (Tier.F1, (parts.entry, parts.code, parts.recipe, *rest, parts.seeds)),
        (Tier.F1_NORMAL, (parts.entry, parts.code_normal, parts.recipe, *rest, parts.seeds)),
        (Tier.F2, (parts.entry, parts.code, parts.recipe, *rest)),
        (Tier.F3, (parts.recipe, *rest)),
        (Tier.F4, (parts.entry, *rest)),
        (Tier.CODE_PARAMS, (parts.entry, parts.code, parts.recipe)),
    )
    for tier, hashes in tier_parts:
        if all(hashes):
            yield Tier(tier + weak), tier_key(tier, hashes)
    family = (parts.entry, *rest, parts.seeds)
    if all(family) and parts.left_out is not None:
        for key in left_out_keys(family, dict.fromkeys((parts.recipe, *parts.left_out.values()))):
            yield Tier(Tier.LEFT_OUT + weak), key


def tier_key(tier: Tier, hashes: Collection[str]) -> int:
    """Return the first 63 bits of SHA-256 over a tier's name and the hashes of its parts, joined
    by spaces.
    """
    text = " ".join((tier.name, *hashes))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> (64 - _BITS)


def left_out_keys(family: Collection[str], recipes: Iterable[str]) -> Iterator[int]:
    """Return the keys of recipes with a parameter left out: 31 bits of the family's key, then 32 of
    the recipe's in it.

    So the keys of a run, which has one for each parameter, are adjacent in an index, and
    registering it touches a page or two instead of one for each
    (docs/adr/0012-store-leave-one-out-keys-contiguously.md).
    """
    own = (1 << _OWN_BITS) - 1
    shared = tier_key(Tier.LEFT_OUT, family) & ~own
    for recipe in recipes:
        yield shared | tier_key(Tier.LEFT_OUT, (*family, recipe)) & own
