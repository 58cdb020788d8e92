"""The verdicts about the pairs of runs: the collector surveys both runs as it does before a start,
and the server's rule compares them. ``python -m tests.preflight.pairs.measure`` prints the tables.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from tests.preflight.pairs.model import Pair, RunSpec

STARTED_US = 1_760_000_000_000_000
HOUR_US = 3_600_000_000
REPEATS = ("duplicate", "near")


@dataclass(frozen=True)
class Judged:
    """The verdict about the second run of a pair, after the first one finished."""

    pair: Pair
    verdict: str
    certainty: str
    level: str
    unverified: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """Return the column of the confusion table."""
        if self.verdict in REPEATS:
            return f"{self.certainty} {self.verdict}"
        return self.verdict

    @property
    def is_false_verified(self) -> bool:
        """Return whether a certain repeat is reported where the work or its seed differs."""
        return (
            self.pair.truth != "same"
            and self.verdict in REPEATS
            and self.certainty == "verified"
            and self.level in ("warn", "loud")
        )

    @property
    def is_missed(self) -> bool:
        """Return whether a repeat with known data and seed is not reported at all."""
        return self.pair.is_comparable and self.verdict not in REPEATS


def judge_pair(pair: Pair) -> Judged:
    """Survey both runs in temporary folders and judge the second one. Nothing is executed."""
    from apps.preflight.selectors import lookup_keys, work_of
    from apps.preflight.similarity import PastRun, Question
    from apps.preflight.verdicts import judge
    from apps.runs.fingerprint_parsing import parse_fingerprint
    from apps.runs.match_keys import tier_keys
    from apps.runs.services.fingerprints import parts_of, row_from_payload

    left, right = (
        row_from_payload(parse_fingerprint(_survey(spec, pair))) for spec in (pair.left, pair.right)
    )
    work = work_of(right, ())
    keys = set(tier_keys(parts_of(left, ignored=())))
    is_found = not keys.isdisjoint(lookup_keys(parts_of(right, ignored=()), work))
    past = PastRun(
        uuid=UUID(int=1),
        work=work_of(left, ()),
        state="finished",
        started_us=STARTED_US,
        ended_us=STARTED_US + HOUR_US,
    )
    question = Question(work=work, now=STARTED_US + 24 * 7 * HOUR_US)
    finding = judge(question, [past] if is_found else [])
    unverified = (
        (
            *finding.matches[0].relation.weak,
            *finding.matches[0].relation.labels,
            *finding.matches[0].relation.not_compared,
        )
        if finding.matches
        else ()
    )
    return Judged(
        pair, finding.verdict.value, finding.certainty.value, finding.level.value, unverified
    )


def _survey(spec: RunSpec, pair: Pair) -> dict[str, object]:
    from labcarbon_collect.fingerprint.builder import survey

    from tests.preflight.pairs.execute import materialise, python_folder

    with tempfile.TemporaryDirectory(prefix="pair-") as folder:
        started = materialise(spec, Path(folder), python_folder(pair.framework))
        surveyed = survey(
            started.command, cwd=str(started.folder), environ=started.environ, seconds=60
        )
        wire = dict(surveyed.wire)
        # The parts that the background worker would hash are small here.
        assert not surveyed.data, (pair.name, surveyed.notes)
        assert not surveyed.start, (pair.name, surveyed.notes)
        return wire


def format_table(judged: Iterable[Judged]) -> str:
    """Return the confusion table: truths of the pairs against verdicts."""
    rows = list(judged)
    truths = ("same", "replicate", "different")
    outcomes = sorted({one.outcome for one in rows})
    counts = Counter((one.pair.truth, one.outcome) for one in rows)
    lines = [" | ".join(["truth", *outcomes])]
    lines += [
        " | ".join([truth, *(str(counts[truth, outcome]) for outcome in outcomes)])
        for truth in truths
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    import os

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "labcarbon.settings")
    django.setup()
    from tests.preflight.pairs import HELD_OUT, PAIRS

    for title, pairs in (("PAIRS", PAIRS), ("HELD_OUT", HELD_OUT)):
        results = [judge_pair(pair) for pair in pairs]
        comparable = [one for one in results if one.pair.is_comparable]
        print(f"{title}: {len(comparable)} repeats with known data and seed")
        print(format_table(results))
        for one in results:
            if one.is_false_verified or one.is_missed:
                kind = "false verified" if one.is_false_verified else "missed"
                print(
                    f"{kind}: {one.pair.name}: {one.outcome} {one.unverified} ({one.pair.reason})"
                )
