"""Code states as hashes of their lines. Their similarity can be computed without the code.

Each *distinct* normal form of a lab is kept once, with 16 MinHash bands of 8 rows: texts that share
a band may be alike (at a likeness of 0.95 the chance to share none is below 10⁻⁷), and
:func:`jaccard` then says how much, exactly.
"""

import hashlib
import sys
from array import array
from collections.abc import Iterable
from itertools import combinations

from rensa import RMinHash

from apps.accounts.models import Lab
from apps.core.sql import bulk_insert, fetch_rows
from apps.runs.models import CodeState, MinHashBand

PERMUTATIONS, BANDS, ROWS = 128, 16, 8
MIN_SIMILARITY, MAX_SIMILAR = 0.95, 50
_SEED = 1  # part of what a band is: another seed would find nothing of what is stored


def save_code_state(*, lab: Lab, normal: str, shingles: Iterable[str]) -> None:
    """Store the line hashes (8 hex digits each) of a normal form, unless the lab already has
    them.
    """
    lines = sorted({int(shingle, 16) for shingle in shingles})
    if not normal or not lines:
        return
    rows = list(
        fetch_rows(
            (
                "INSERT INTO runs_codetext (lab_id, normal, shingles) VALUES (%s, %s, %s) ON "
                "CONFLICT DO NOTHING RETURNING id"
            ),
            [lab.pk, normal, pack_lines(lines)],
        )
    )
    if not rows:
        return  # somebody kept it at the same moment
    bands = bands_of(lines)
    bulk_insert(
        "runs_codeband",
        {
            "lab_id": ("bigint", [lab.pk] * len(bands)),
            "text_id": ("bigint", [rows[0]["id"]] * len(bands)),
            "band": ("bigint", bands),
        },
    )


def find_similar_code(lab: Lab, normal: str) -> dict[str, float]:
    """Return other normal forms of a lab that are similar to one, with their similarity (0.95 to
    1).

    The newest MOST_NEAR texts that share a band are compared exactly. At most four queries.
    """
    own = CodeState.objects.filter(lab=lab, normal=normal).first() if normal else None
    if own is None:
        return {}
    bands = MinHashBand.objects.filter(code_state=own).values("band")
    shared = MinHashBand.objects.filter(lab=lab, band__in=bands).exclude(code_state=own)
    newest = (
        shared.order_by("-code_state_id")
        .values_list("code_state_id", flat=True)
        .distinct()[:MAX_SIMILAR]
    )
    lines = unpack_lines(own.shingles)
    similarities = {
        text.normal: jaccard(lines, unpack_lines(text.shingles))
        for text in CodeState.objects.filter(pk__in=list(newest))
    }
    return {
        normal_form: similarity
        for normal_form, similarity in similarities.items()
        if similarity >= MIN_SIMILARITY
    }


def minimum_similarity(lab: Lab, normals: Iterable[str]) -> float | None:
    """Return the lowest similarity of any two normal forms (0 to 1), or None if lines are
    missing. One query.
    """
    distinct = sorted(set(normals))
    texts = CodeState.objects.filter(lab=lab, normal__in=distinct).values_list(
        "shingles", flat=True
    )
    lines = [unpack_lines(shingles) for shingles in texts]
    if len(lines) < max(2, len(distinct)):
        return None
    return min(jaccard(one, other) for one, other in combinations(lines, 2))


def bands_of(lines: Iterable[int]) -> list[int]:
    """Return the 16 bands of a set of lines: each the first 63 bits of SHA-256 over its number
    and 8 least hashes.
    """
    sketch = RMinHash(num_perm=PERMUTATIONS, seed=_SEED)
    sketch.update([f"{line:08x}" for line in lines])
    hashes = sketch.digest()
    return [_band(number, hashes[number * ROWS : (number + 1) * ROWS]) for number in range(BANDS)]


def pack_lines(lines: Iterable[int]) -> bytes:
    """Return sorted 32-bit integers as bytes, big endian."""
    return _to_big_endian(array("I", lines)).tobytes()


def unpack_lines(stored: bytes | memoryview) -> frozenset[int]:
    """Return the integers that :func:`pack_lines` stored."""
    return frozenset(_to_big_endian(array("I", bytes(stored))))


def jaccard(one: Iterable[int], other: Iterable[int]) -> float:
    """Return the Jaccard similarity of two sets of lines (0 to 1)."""
    a, b = frozenset(one), frozenset(other)
    return len(a & b) / len(a | b) if a or b else 0.0


def _to_big_endian(numbers: "array[int]") -> "array[int]":
    """Swap between this machine's byte order and big endian."""
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def _band(number: int, hashes: list[int]) -> int:
    text = " ".join(map(str, (number, *hashes)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
