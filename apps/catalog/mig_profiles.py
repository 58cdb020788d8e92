"""MIG slices of cards: shares of SMs and memory, and how many fit. Pure.

The table (``data/mig_profiles.csv``) counts memory in GB of 10⁹ bytes, which is a little less than
a slice has. SM counts and sizes that the driver reports precede the table
(:meth:`MigCard.with_driver_values`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from apps.catalog.matching import match_key

_BYTES_PER_GB = 10**9


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A kind of slice. ``sm_count`` is None if it is unknown."""

    name: str  # '1g.10gb'
    compute_slices: int  # of the compute slices of the card
    memory_slices: int  # of the memory slices of the card
    max_instances: int
    memory_bytes: int
    sm_count: int | None


@dataclass(frozen=True, slots=True)
class MigCard:
    """A card that can be divided. ``sm_count`` is None if it is unknown."""

    name: str
    driver_names: tuple[str, ...]
    memory_bytes: int
    sm_count: int | None
    compute_slices: int
    memory_slices: int
    profiles: tuple[MigProfile, ...]

    def with_driver_values(
        self,
        *,
        memory_bytes: int | None = None,
        sm_count: int | None = None,
        profile_sm_counts: Mapping[str, int] | None = None,
        profile_memory_bytes: Mapping[str, int] | None = None,
    ) -> "MigCard":
        """Return the card with the values that its driver reports; the rest stays."""
        sm_counts, sizes = profile_sm_counts or {}, profile_memory_bytes or {}
        return replace(
            self,
            memory_bytes=memory_bytes or self.memory_bytes,
            sm_count=sm_count or self.sm_count,
            profiles=tuple(
                replace(
                    profile,
                    sm_count=sm_counts.get(profile.name, profile.sm_count),
                    memory_bytes=sizes.get(profile.name, profile.memory_bytes),
                )
                for profile in self.profiles
            ),
        )


def parse_mig_cards(rows: Iterable[Mapping[str, str]]) -> tuple[MigCard, ...]:
    """Return the cards of the table, each with its profiles in the table's order."""
    cards: dict[str, MigCard] = {}
    for row in rows:
        compute, card_compute = _fraction(row["compute_fraction"])
        memory, card_memory = _fraction(row["memory_fraction"])
        card_bytes = int(row["memory_gb"]) * _BYTES_PER_GB
        profile = MigProfile(
            name=row["profile"],
            compute_slices=compute,
            memory_slices=memory,
            max_instances=int(row["max_instances"]),
            memory_bytes=card_bytes * memory // card_memory,
            sm_count=_count(row["sm_count"]),
        )
        card = cards.get(row["card"]) or MigCard(
            name=row["card"],
            driver_names=tuple(row["names"].split(";")),
            memory_bytes=card_bytes,
            sm_count=_count(row["card_sm_count"]),
            compute_slices=card_compute,
            memory_slices=card_memory,
            profiles=(),
        )
        cards[row["card"]] = replace(card, profiles=(*card.profiles, profile))
    return tuple(cards.values())


def select_mig_card(cards: Iterable[MigCard], name: str) -> MigCard | None:
    """Return the card with this name of a driver or of the table. None: it has no slices, or they
    are unknown.
    """
    key = match_key(name)
    for card in cards:
        if key in {match_key(known) for known in (card.name, *card.driver_names)}:
            return card
    return None


def _fraction(text: str) -> tuple[int, int]:
    part, _, whole = text.partition("/")
    return int(part), int(whole)


def _count(text: str) -> int | None:
    return int(text) if text else None
