"""What a caller is told of matches: who, when, how much, how it went, what differs; only what they may see."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median_low
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.conf import settings

from apps.accounts.models import Lab, User
from apps.carbon.figures.energy import Figure, figures_of_runs
from apps.carbon.figures.visibility import SOMEBODY, Sight
from apps.core.clock import utc
from apps.preflight.choices import Level, Verdict
from apps.preflight.differences import Difference, differences
from apps.preflight.messages import message, opening
from apps.preflight.selectors import runs_told
from apps.preflight.similarity import Question, Seeds
from apps.preflight.verdicts import Found, Match
from apps.runs.models import Run
from apps.runs.selectors import metrics_of

TOLD = 5
MOST_ALIKE = 10
_AFTER = 16  # differences in a sentence would hide the sentence
YOU = "you"
_STATES = {"running": "still running", "failed": "failed", "killed": "killed", "lost": "lost", "finished": "finished"}


@dataclass(frozen=True)
class Asker:
    """Who is told. ``reads``: may read runs; a node's token may not, and is told neither which run nor whose."""

    user: User | None
    sight: Sight
    reads: bool

    def who(self, run: Run) -> str:
        """Return whose run it is, as far as the asker may know."""
        return who_of(run, self.sight) if self.reads else SOMEBODY


def who_of(run: Run, sight: Sight) -> str:
    """Return whose run it is for somebody with ``sight``: 'you', a name, or someone in the lab."""
    if run.user_id is not None and run.user_id == sight.person_id:
        return YOU
    if run.user is not None:
        return run.user.get_username() if sight.of_person(run.user_id) else SOMEBODY
    return sight.user_of(run) or SOMEBODY


@dataclass(frozen=True)
class Told:
    """A match as told."""

    run: Run
    who: str
    match: Match
    figure: Figure | None
    metric: tuple[str, float] | None
    differs: list[Difference]


def emission_of(figure: Figure | None) -> int | None:
    """Return µg, None where some of the energy has no factor: at least so much is not so much."""
    return None if figure is None or figure.without_factor_mj else figure.emission_ug


def told(lab: Lab, question: Question, found: Found, asker: Asker) -> tuple[list[Told], dict[str, Any] | None]:
    """Return the first matches as told, and what runs of this recipe used. Four queries, whatever the number of matches."""
    first = found.matches[:TOLD] if found.level != Level.SILENT or found.verdict == Verdict.SAME_RUN else found.matches[:1]
    alike = [match.past.uuid for match in found.alike[:MOST_ALIKE]]
    wanted = [match.past.uuid for match in first]
    figures = figures_of_runs(lab, [*wanted, *(uuid for uuid in alike if uuid not in wanted)])
    runs = runs_told(lab, wanted)
    metrics = metrics_of([run.pk for run in runs.values()])
    listed = [
        Told(
            run=run,
            who=asker.who(run),
            match=match,
            figure=figures.get(run.uuid),
            metric=metrics.get(run.pk) if asker.reads else None,
            differs=differences(question.work, match.past.work),
        )
        for match in first
        if (run := runs.get(match.past.uuid)) is not None
    ]
    return listed, estimate(figures, alike)


def estimate(figures: Mapping[UUID, Figure], alike: Sequence[UUID]) -> dict[str, Any] | None:
    """Return what finished runs of the same recipe used: the lower median, least and most; None where none was measured."""
    used = [figures[uuid] for uuid in alike if uuid in figures]
    if not used:
        return None
    emissions = [value for figure in used if (value := emission_of(figure)) is not None]
    energies = [figure.energy_mj for figure in used]
    return {
        "runs": len(used),
        "energy_mj": median_low(energies),
        "low_mj": min(energies),
        "high_mj": max(energies),
        "emission_ug": median_low(emissions) if len(emissions) == len(used) else None,
    }


def told_match(told_: Told, asker: Asker) -> dict[str, Any]:
    """Return a match as the API tells it. ``differs``: 'here' is what was asked about."""
    run, past = told_.run, told_.match.past
    project = run.charged_project
    return {
        "run": str(run.uuid) if asker.reads else None,
        "url": f"{settings.SITE_URL}/runs/{run.uuid}/" if asker.reads else None,
        "who": told_.who,
        "started_at": utc(run.started_us).isoformat(),
        "ended_at": utc(run.ended_us).isoformat() if run.ended_us is not None else None,
        "state": run.state,
        "project": project.slug if project is not None and asker.reads else None,
        "host": (run.host or None) if asker.reads else None,
        "energy_mj": told_.figure.energy_mj if told_.figure else None,
        "emission_ug": emission_of(told_.figure),
        "metric": {"name": told_.metric[0], "value": told_.metric[1]} if told_.metric else None,
        "differs": [
            {"part": each.part, "name": each.name, "here": each.here, "there": each.there if asker.reads else None}
            for each in told_.differs
        ],
        "weak": list(told_.match.relation.weak),
        "failure": _failure(run, asker) if past.failure else None,
    }


def _failure(run: Run, asker: Asker) -> dict[str, str | None]:
    text = run.failure_text.strip().splitlines()[-1][:200] if run.failure_text.strip() else ""
    return {"class": run.failure, "text": text if asker.reads and text else None}


def sentence(found: Found, listed: Sequence[Told], zone: str) -> str:
    """Return one sentence for a terminal, '' where nothing is to be said."""
    unseeded = bool(found.matches) and found.matches[0].relation.seeds == Seeds.UNSET
    start = opening(found.verdict, found.certainty, unseeded)
    if not listed:
        return f"{start}." if start else ""
    first = listed[0]
    return message(
        start,
        who=first.who,
        day=_day(first.run.started_us, zone),
        state=_STATES.get(first.run.state, first.run.state),
        energy_mj=first.figure.energy_mj if first.figure else None,
        emission_ug=emission_of(first.figure),
        metric=first.metric,
        weak=first.match.relation.weak,
        differs=[each.name for each in first.differs if each.part in ("code", "params", "seeds")][:_AFTER],
    )


def _day(at_us: int, zone: str) -> str:
    local: datetime = utc(at_us).astimezone(ZoneInfo(zone))
    return f"{local.day} {local:%b %Y %H:%M}"
