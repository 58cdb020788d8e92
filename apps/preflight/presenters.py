"""Matches in a response, limited to what the requester may see."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median_low
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.conf import settings
from django.urls import reverse

from apps.accounts.models import Lab, User
from apps.carbon.figures.energy import Figure, figures_of_runs
from apps.carbon.figures.visibility import ANONYMISED, Visibility
from apps.core.clock import utc
from apps.preflight.choices import Level, Verdict
from apps.preflight.differences import Difference, differences, label_text
from apps.preflight.messages import incomparable, message, opening
from apps.preflight.selectors import runs_by_uuid
from apps.preflight.similarity import Question, Seeds
from apps.preflight.verdicts import Finding, Match
from apps.runs.choices import EnergyState
from apps.runs.models import Run
from apps.runs.selectors import energy_states, metrics_of

MAX_MATCHES = 5
MAX_ESTIMATE_RUNS = 10
_MAX_DIFFERENCES = 16  # more would hide the sentence
YOU = "you"
_STATES = {
    "running": "still running",
    "failed": "failed",
    "killed": "killed",
    "lost": "lost",
    "finished": "finished",
}


@dataclass(frozen=True)
class Requester:
    """The requester. ``reads``: may read runs; a node token may not, and gets neither runs nor
    names.
    """

    user: User | None
    visibility: Visibility
    reads: bool

    def who(self, run: Run) -> str:
        """Return the user of a run, as far as the requester may see it."""
        return who_of(run, self.visibility) if self.reads else ANONYMISED


def who_of(run: Run, visibility: Visibility) -> str:
    """Return the user of a run as ``visibility`` allows: 'you', a name, or anonymised."""
    if run.user_id is not None and run.user_id == visibility.person_id:
        return YOU
    if run.user is not None:
        return run.user.get_username() if visibility.of_person(run.user_id) else ANONYMISED
    return visibility.user_of(run) or ANONYMISED


@dataclass(frozen=True)
class PresentedMatch:
    """A match in a response."""

    run: Run
    who: str
    match: Match
    figure: Figure | None
    energy_state: EnergyState
    metric: tuple[str, float] | None
    differs: list[Difference]


def emission_of(figure: Figure | None) -> int | None:
    """Return µg, or None if part of the energy has no factor."""
    return None if figure is None or figure.without_factor_mj else figure.emission_ug


def present_matches(
    lab: Lab, question: Question, judgement: Finding, requester: Requester
) -> tuple[list[PresentedMatch], dict[str, Any] | None]:
    """Return the first matches and the energy estimate of this recipe. At most five queries for any
    number of matches.
    """
    matches = (
        judgement.matches[:MAX_MATCHES]
        if judgement.level != Level.SILENT or judgement.verdict == Verdict.SAME_RUN
        else judgement.matches[:1]
    ) or judgement.partial[:MAX_MATCHES]
    alike = [match.past.uuid for match in judgement.alike[:MAX_ESTIMATE_RUNS]]
    uuids = [match.past.uuid for match in matches]
    figures = figures_of_runs(lab, [*uuids, *(uuid for uuid in alike if uuid not in uuids)])
    runs = runs_by_uuid(lab, uuids)
    metrics = metrics_of([run.pk for run in runs.values()])
    states = energy_states(lab, runs, figures)
    presented = [
        PresentedMatch(
            run=run,
            who=requester.who(run),
            match=match,
            figure=figures.get(run.uuid),
            energy_state=states[run.uuid],
            metric=metrics.get(run.pk) if requester.reads else None,
            differs=[
                difference if requester.reads else difference.without_there()
                for difference in differences(question.work, match.past.work)
            ],
        )
        for match in matches
        if (run := runs.get(match.past.uuid)) is not None
    ]
    return presented, estimate(figures, alike)


def estimate(figures: Mapping[UUID, Figure], alike: Sequence[UUID]) -> dict[str, Any] | None:
    """Return the energy of finished runs of the same recipe (lower median, minimum, maximum), or
    None if unmeasured.
    """
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


def present_match(match: PresentedMatch, requester: Requester) -> dict[str, Any]:
    """Return a match in the API's form. ``differs``: 'here' is the requested work."""
    run, past = match.run, match.match.past
    project = run.charged_project
    return {
        "run": str(run.uuid) if requester.reads else None,
        "url": f"{settings.SITE_URL}{reverse('run', args=[run.uuid])}" if requester.reads else None,
        "who": match.who,
        "started_at": utc(run.started_us).isoformat(),
        "ended_at": utc(run.ended_us).isoformat() if run.ended_us is not None else None,
        "state": run.state,
        "project": project.slug if project is not None and requester.reads else None,
        "host": (run.host or None) if requester.reads else None,
        "energy_mj": match.figure.energy_mj if match.figure else None,
        "energy_state": match.energy_state.value,
        "emission_ug": emission_of(match.figure),
        "metric": {"name": match.metric[0], "value": match.metric[1]} if match.metric else None,
        "differs": [
            {
                "part": difference.part,
                "name": difference.name,
                "here": difference.here,
                "there": difference.there,
                "here_state": difference.here_state,
                "there_state": difference.there_state,
            }
            for difference in match.differs
        ],
        "weak": list(match.match.relation.weak),
        "labels": sorted(match.match.relation.labels),
        "not_compared": [*match.match.relation.unknown, *match.match.relation.not_compared],
        "failure": _failure(run, requester) if past.failure else None,
    }


def _failure(run: Run, requester: Requester) -> dict[str, str | None]:
    text = run.failure_text.strip().splitlines()[-1][:200] if run.failure_text.strip() else ""
    return {"class": run.failure, "text": text if requester.reads and text else None}


def sentence(judgement: Finding, presented: Sequence[PresentedMatch], zone: str) -> str:
    """Return one sentence for a terminal, '' for a silent verdict."""
    if judgement.verdict == Verdict.NONE:
        last = presented[0] if presented else None
        newest = _summary(last.run, last.who, zone) if last else ""
        return incomparable(judgement.unknown, len(judgement.partial) if last else 0, newest)
    unseeded = bool(judgement.matches) and judgement.matches[0].relation.seeds == Seeds.UNSET
    start = opening(judgement.verdict, judgement.certainty, unseeded)
    if not presented:
        return f"{start}." if start else ""
    first = presented[0]
    return message(
        start,
        who=first.who,
        day=_day(first.run.started_us, zone),
        state=_STATES.get(first.run.state, first.run.state),
        energy_mj=first.figure.energy_mj if first.figure else None,
        is_counted=first.energy_state != EnergyState.NOT_COUNTED_YET,
        emission_ug=emission_of(first.figure),
        metric=first.metric,
        weak=first.match.relation.weak,
        labels=[
            label_text(difference) for difference in first.differs if difference.part == "labels"
        ],
        not_compared=(*first.match.relation.unknown, *first.match.relation.not_compared),
        differs=[
            difference.name
            for difference in first.differs
            if difference.part in ("code", "params", "seeds")
        ][:_MAX_DIFFERENCES],
    )


def _summary(run: Run, who: str, zone: str) -> str:
    return f"{who}, {_day(run.started_us, zone)}, {_STATES.get(run.state, run.state)}"


def _day(at_us: int, zone: str) -> str:
    local: datetime = utc(at_us).astimezone(ZoneInfo(zone))
    return f"{local.day} {local:%b %Y %H:%M}"
