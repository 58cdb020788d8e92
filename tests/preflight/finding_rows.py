"""Many duplicate findings at once, as rows: families of runs with energy."""

import uuid
from collections.abc import Sequence

from apps.accounts.models import Project, User
from apps.preflight.choices import Certainty, FindingState, Verdict
from apps.preflight.finding_families import FAMILY_TIER
from apps.preflight.models import DuplicateFinding
from apps.runs.choices import RunState
from apps.runs.models import Fingerprint, Run, TierKey
from tests.builders import MINUTE, T0, SmallLab, W, push
from tests.preflight.support import GPU

KEY = 8_000_000_000_000_000_000  # of the first family: 19 digits


def many_findings(
    lab: SmallLab,
    sizes: Sequence[int],
    *,
    user: User | None = None,
    project: Project | None = None,
    energy_mj: int = 0,
    first: int = 0,
    start_us: int = T0,
) -> list[DuplicateFinding]:
    """Store families of open findings, one for each size, and return the findings, newest first.
    ``energy_mj``: of the first run; each further one has one mJ more. ``first``: number of the
    first family. ``start_us``: of family 0.
    """
    user = user or lab.owner
    places = [
        (first + i, j) for i, size in enumerate(sizes) for j in range(size + 1)
    ]  # run 0 of a family is the original
    runs = Run.objects.bulk_create(
        [
            Run(
                lab=lab.lab,
                uuid=uuid.uuid4(),
                name=f"run-{i}-{j}.py",
                started_us=start_us + k * MINUTE,
                ended_us=start_us + (k + 1) * MINUTE,
                state=RunState.FINISHED,
                user=user,
                node=lab.node,
                charged_project=project,
            )
            for k, (i, j) in enumerate(places, start=first * 100)
        ]
    )
    Fingerprint.objects.bulk_create(
        [
            Fingerprint(run=run, entry_name=f"train_{i}.py")
            for run, (i, _) in zip(runs, places, strict=True)
        ]
    )
    TierKey.objects.bulk_create(
        [
            TierKey(lab=lab.lab, tier=FAMILY_TIER, key=KEY + i, run=run)
            for run, (i, _) in zip(runs, places, strict=True)
        ]
    )
    originals = {i: run for run, (i, j) in zip(runs, places, strict=True) if j == 0}
    repeats = [(run, i) for run, (i, j) in zip(runs, places, strict=True) if j]
    findings = DuplicateFinding.objects.bulk_create(
        [
            DuplicateFinding(
                lab=lab.lab,
                run=run,
                original=originals[i],
                verdict=Verdict.NEAR if k % 3 == 2 else Verdict.DUPLICATE,
                certainty=Certainty.POSSIBLE if k % 2 else Certainty.VERIFIED,
                detected_us=run.started_us,
                state=FindingState.OPEN,
            )
            for k, (run, i) in enumerate(repeats)
        ]
    )
    if energy_mj:
        windows = [_window(run, energy_mj + k) for k, (run, _) in enumerate(repeats)]
        for start in range(0, len(windows), 500):
            part = windows[start : start + 500]
            push(lab.node, part, sent_at=part[-1].end_us)
    return findings[::-1]


def _window(run: Run, energy_mj: int) -> W:
    return W(
        GPU,
        energy_mj,
        start_us=run.started_us,
        end_us=run.started_us + MINUTE,
        seq=run.started_us // MINUTE % 10**6,
        shares=((f"run:{run.uuid}", energy_mj),),
    )
