"""Requirements that a new card must meet to do the work of the old one. Pure.

A payback time of a card that cannot do the work is no figure. A requirement that is not met
therefore precedes it. A requirement is *uncertain* if it is met in the middle of the ranges only,
or if a part that decides is not measured, and *unknown* if there is nothing to compare.
"""

from dataclasses import dataclass

from apps.core.units import HOURS_PER_YEAR, PPM
from apps.replacement.payback import Known

MET, UNMET, UNCERTAIN, UNKNOWN = "met", "unmet", "uncertain", "unknown"
HOURS, MEMORY, FORM_FACTOR = "hours", "memory", "form_factor"
NAMES = {HOURS: "Hours per year", MEMORY: "Memory", FORM_FACTOR: "Form factor"}


@dataclass(frozen=True)
class Requirement:
    """A requirement with its state and the values compared. ``clause`` ends a sentence about the
    new card: "has 24 GiB of memory, the jobs used 30.0 GiB".
    """

    name: str
    state: str
    clause: str

    @property
    def label(self) -> str:
        return NAMES[self.name]


@dataclass(frozen=True)
class Card:
    """Facts of a card; None or '': not known."""

    kind: str
    memory_mib: int | None
    form_factor: str


def hours_requirement(hours: Known, ratio_ppm: Known) -> Requirement:
    """Return whether the work of a year fits into a year on the new card."""
    most = max(hours.high * ratio_ppm.value, hours.value * ratio_ppm.high)
    middle = hours.value * ratio_ppm.value
    needed = -(-middle // PPM)
    text = f"needs {_hours(needed)} a year for the same work, of {_hours(HOURS_PER_YEAR)}"
    if middle > HOURS_PER_YEAR * PPM:
        return Requirement(HOURS, UNMET, text)
    if most > HOURS_PER_YEAR * PPM:
        end = _hours(-(-most // PPM))
        return Requirement(HOURS, UNCERTAIN, f"{text}, at one end of the range {end}")
    return Requirement(HOURS, MET, text)


def memory_requirement(used_mib: int | None, old: Card | None, new: Card) -> Requirement:
    """Return whether the new card has the memory that the jobs used, else that of the old one."""
    if new.memory_mib is None:
        return Requirement(MEMORY, UNKNOWN, "has an unknown amount of memory")
    text = f"has {_gib(new.memory_mib)} of memory"
    if used_mib is not None:
        state = UNMET if used_mib > new.memory_mib else MET
        return Requirement(MEMORY, state, f"{text}, the jobs used {_gib(used_mib)}")
    text += "; the memory that the jobs use is not measured"
    if old is None or old.memory_mib is None:
        return Requirement(MEMORY, UNKNOWN, text)
    state = MET if new.memory_mib >= old.memory_mib else UNCERTAIN
    return Requirement(MEMORY, state, f"{text}, the old card has {_gib(old.memory_mib)}")


def form_requirement(old: Card | None, new: Card, old_kind: str) -> Requirement:
    """Return whether the new card fits where the old one is."""
    if new.kind != old_kind:
        return Requirement(FORM_FACTOR, UNMET, f"is another kind of hardware than a {old_kind}")
    if not new.form_factor:
        return Requirement(FORM_FACTOR, UNKNOWN, "has an unknown form factor")
    if old is None or not old.form_factor:
        text = f"is {_article(new.form_factor)}, the form factor of the old one is unknown"
        return Requirement(FORM_FACTOR, UNKNOWN, text)
    if new.form_factor != old.form_factor:
        text = f"is {_article(new.form_factor)}, the old one {_article(old.form_factor)}"
        return Requirement(FORM_FACTOR, UNMET, text)
    return Requirement(FORM_FACTOR, MET, f"is {_article(new.form_factor)}, like the old one")


def _hours(hours: int) -> str:
    return f"{hours:,} h".replace(",", "\u202f")


def _gib(mib: int) -> str:
    return f"{mib / 1024:.1f} GiB"


def _article(form_factor: str) -> str:
    return f"{'an' if form_factor[0] in 'OS' else 'a'} {form_factor}"
