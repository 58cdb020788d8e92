"""Certificate ids as ranges of numbers: parse them, and find those that overlap. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from apps.core.errors import InvalidInput

MAX_RANGES = 2000
MAX_RANGE = 1_000_000  # certificates
_MAX_ID = 100
_DIGITS = 18  # of the number at the end of an id; digits before them are part of the prefix
_END = re.compile(rf"(.*?)(\d{{0,{_DIGITS}}})\Z", re.ASCII | re.DOTALL)
_SEPARATOR = re.compile(r"(?:^|\s+)(?:to|-|–)(?:\s+|$)|\s*(?:–|\.\.)\s*", re.IGNORECASE)
_NO_NUMBER = -1


@dataclass(frozen=True)
class IdRange:
    """Ids with one prefix and a number from ``first`` to ``last``."""

    prefix: str
    first: int
    last: int
    text: str

    @property
    def size(self) -> int:
        """Return the number of certificates."""
        return self.last - self.first + 1

    def overlaps(self, other: "IdRange") -> bool:
        """Return whether a certificate is in both."""
        return self.prefix == other.prefix and self.first <= other.last and other.first <= self.last


def parse_ids(text: str) -> list[IdRange]:
    """Parse ids, one per line or separated by commas or semicolons. A range is 'first to last'.

    Upper and lower case, and leading zeros of the number, make no difference. Raises InvalidInput
    for a range with two prefixes, a range in reverse order, and an id that is repeated.
    """
    entries = [" ".join(entry.split()) for entry in re.split(r"[\n,;]", text)]
    ranges = [_parse_entry(entry) for entry in entries if entry]
    if len(ranges) > MAX_RANGES:
        raise InvalidInput(
            f"{len(ranges)} certificate ids.",
            field="certificates",
            hint=f"At most {MAX_RANGES}. Enter consecutive ids as a range: first to last.",
        )
    pair = first_overlap(ranges)
    if pair is not None:
        raise InvalidInput(
            f"{pair[0].text} and {pair[1].text} contain the same certificate.",
            field="certificates",
            hint="A certificate is used once. Enter each id once.",
        )
    return ranges


def first_overlap(ranges: Iterable[IdRange]) -> tuple[IdRange, IdRange] | None:
    """Return two ranges with a common certificate, None if there are none."""
    previous: IdRange | None = None
    for current in sorted(ranges, key=lambda ids: (ids.prefix, ids.first, ids.last)):
        if previous is not None and previous.overlaps(current):
            return previous, current
        previous = current
    return None


def count_certificates(ranges: Sequence[IdRange]) -> int:
    """Return the number of certificates of ranges."""
    return sum(ids.size for ids in ranges)


def _parse_entry(entry: str) -> IdRange:
    parts = _SEPARATOR.split(entry)
    if len(parts) > 2 or not all(parts):
        raise InvalidInput(
            f"{entry[:100]!r} is not a certificate id or a range.",
            field="certificates",
            hint="Enter one id per line, or a range: first to last.",
        )
    prefix, first = _split_id(parts[0])
    last_prefix, last = _split_id(parts[-1])
    if prefix != last_prefix or last < first or (len(parts) == 2 and _NO_NUMBER in (first, last)):
        raise InvalidInput(
            f"{entry[:100]!r} is not a range of certificate ids.",
            field="certificates",
            hint="Both ids of a range have the same text before the number, the smaller first.",
        )
    if last - first >= MAX_RANGE:
        raise InvalidInput(
            f"{entry[:100]!r} has {last - first + 1:,} certificates.",
            field="certificates",
            hint=f"A range has at most {MAX_RANGE:,}.",
        )
    return IdRange(prefix, first, last, entry)


def _split_id(text: str) -> tuple[str, int]:
    if len(text) > _MAX_ID:
        raise InvalidInput(
            f"{text[:40]!r}… has {len(text)} characters.",
            field="certificates",
            hint=f"A certificate id has at most {_MAX_ID} characters.",
        )
    match = _END.fullmatch(text.upper().replace(" ", ""))
    assert match is not None  # the pattern matches every text
    return match[1], int(match[2]) if match[2] else _NO_NUMBER
