"""Code states as hashes of their lines: how alike two are is told without having the code.

Each *distinct* normal form of a lab is kept once, with 16 MinHash bands of 8 rows: texts that share a band may be alike
(at a likeness of 0.95 the chance to share none is below 10⁻⁷), and :func:`jaccard` then says how much, exactly.
"""

import hashlib
import sys
from array import array
from collections.abc import Iterable
from itertools import combinations

from rensa import RMinHash

from apps.accounts.models import Lab
from apps.core.sql import bulk_insert, fetch_rows
from apps.runs.models import CodeBand, CodeText

PERMUTATIONS, BANDS, ROWS = 128, 16, 8
NEAR, MOST_NEAR = 0.95, 50
_SEED = 1  # part of what a band is: another seed would find nothing of what is stored


def keep_code_text(*, lab: Lab, normal: str, shingles: Iterable[str]) -> None:
    """Keep the lines of a normal form; nothing changes where the lab has them. ``shingles``: hashes of 8 hex digits."""
    lines = sorted({int(each, 16) for each in shingles})
    if not normal or not lines:
        return
    made = list(fetch_rows(
        "INSERT INTO runs_codetext (lab_id, normal, shingles) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING RETURNING id",
        [lab.pk, normal, packed(lines)],
    ))  # fmt: skip
    if not made:
        return  # somebody kept it at the same moment
    bands = bands_of(lines)
    bulk_insert(
        "runs_codeband",
        {
            "lab_id": ("bigint", [lab.pk] * len(bands)),
            "text_id": ("bigint", [made[0]["id"]] * len(bands)),
            "band": ("bigint", bands),
        },
    )


def near_texts(lab: Lab, normal: str) -> dict[str, float]:
    """Return the normal forms of a lab that are nearly the same as one, with how alike they are (0.95 to 1), but itself.

    The newest MOST_NEAR texts that share a band are looked at, each exactly. Four queries at most.
    """
    own = CodeText.objects.filter(lab=lab, normal=normal).first() if normal else None
    if own is None:
        return {}
    bands = CodeBand.objects.filter(text=own).values("band")
    shared = CodeBand.objects.filter(lab=lab, band__in=bands).exclude(text=own)
    newest = shared.order_by("-text_id").values_list("text_id", flat=True).distinct()[:MOST_NEAR]
    lines = unpacked(own.shingles)
    found = {text.normal: jaccard(lines, unpacked(text.shingles)) for text in CodeText.objects.filter(pk__in=list(newest))}
    return {each: like for each, like in found.items() if like >= NEAR}


def least_likeness(lab: Lab, normals: Iterable[str]) -> float | None:
    """Return how alike the least alike two of some normal forms are (0 to 1); None where lines are not known. One query."""
    wanted = sorted(set(normals))
    texts = CodeText.objects.filter(lab=lab, normal__in=wanted).values_list("shingles", flat=True)
    lines = [unpacked(each) for each in texts]
    if len(lines) < max(2, len(wanted)):
        return None
    return min(jaccard(one, other) for one, other in combinations(lines, 2))


def bands_of(lines: Iterable[int]) -> list[int]:
    """Return the 16 bands of a set of lines: each the first 63 bits of SHA-256 over its number and 8 least hashes."""
    sketch = RMinHash(num_perm=PERMUTATIONS, seed=_SEED)
    sketch.update([f"{line:08x}" for line in lines])
    least = sketch.digest()
    return [_band(number, least[number * ROWS : (number + 1) * ROWS]) for number in range(BANDS)]


def packed(lines: Iterable[int]) -> bytes:
    """Return sorted 32-bit integers as bytes, big endian."""
    return _turned(array("I", lines)).tobytes()


def unpacked(stored: bytes | memoryview) -> frozenset[int]:
    """Return what :func:`packed` stored."""
    return frozenset(_turned(array("I", bytes(stored))))


def jaccard(one: Iterable[int], other: Iterable[int]) -> float:
    """Return how alike two sets of lines are: what they share, of what either has (0 to 1)."""
    a, b = frozenset(one), frozenset(other)
    return len(a & b) / len(a | b) if a or b else 0.0


def _turned(numbers: "array[int]") -> "array[int]":
    """Turn between this machine's order of bytes and big endian."""
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def _band(number: int, least: list[int]) -> int:
    text = " ".join(map(str, (number, *least)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
