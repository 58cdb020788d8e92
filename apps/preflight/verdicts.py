"""The verdict about a run, given past runs (docs/duplicates.md). Pure.

False positives cost more trust than false negatives, so unknown data never triggers a warning.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from apps.core.units import US_PER_HOUR, US_PER_S
from apps.preflight.choices import Certainty, Level, Verdict
from apps.preflight.similarity import Kind, PastRun, Question, Relation, Seeds, relate
from apps.runs.choices import Failure, Intent, RunState

DECLARED = frozenset(
    {Intent.REPLICATE, Intent.BENCHMARK, Intent.DEBUG, Intent.SERVICE, Intent.PROBE}
)
SEEDS_IN_SILENCE = 5
EXITS_OF_PROGRAMS = range(1, 124)  # above: a timeout, a missing program, a signal
SIBLINGS, SIBLING_KEYS, SIBLING_US = 3, 8, 24 * US_PER_HOUR
SERIES_US = 120 * US_PER_S
FINISHED_OR_RUNNING = frozenset({RunState.FINISHED, RunState.RUNNING})


@dataclass(frozen=True)
class Match:
    """A past run and its relation to the question."""

    past: PastRun
    relation: Relation

    @property
    def kind(self) -> Kind:
        return self.relation.kind

    @property
    def verified(self) -> bool:
        return self.relation.verified

    @property
    def exact(self) -> bool:
        """Return whether the same result is expected. Without a seed the work is the same, but
        its numbers differ.
        """
        return self.kind == Kind.F1 and self.relation.seeds == Seeds.SAME


@dataclass(frozen=True)
class Finding:
    """A verdict. ``matches``: the runs behind it, verified ones first, then newest.

    ``alike``: finished runs of the same recipe, for the energy estimate. ``unknown``: parts of the
    work that are not compared. ``partial``: runs of the same code and parameters, if nothing else
    is found and data or start are unknown.
    """

    verdict: Verdict = Verdict.NONE
    certainty: Certainty = Certainty.VERIFIED
    level: Level = Level.SILENT
    matches: tuple[Match, ...] = ()
    alike: tuple[Match, ...] = ()
    unknown: tuple[str, ...] = ()
    partial: tuple[Match, ...] = ()


def judge(question: Question, past_runs: Iterable[PastRun]) -> Finding:
    """Return the verdict. It does not depend on the order of ``past_runs``."""
    ordered = sorted(past_runs, key=lambda past: (-past.started_us, past.uuid))
    matches = [Match(past, relate(question.work, past.work)) for past in ordered]
    same_run = tuple(match for match in matches if _is_same_run(question, match.past))
    if same_run:
        return Finding(Verdict.SAME_RUN, matches=same_run)
    other_matches = [match for match in matches if not _is_same_work(question, match.past)]
    same_recipe = tuple(
        match
        for match in other_matches
        if match.kind >= Kind.F3 and match.past.state == RunState.FINISHED
    )
    finding = _verdict(question, other_matches)
    if question.intent in DECLARED and finding.verdict not in (Verdict.NONE, Verdict.SWEEP):
        finding = replace(finding, verdict=Verdict.DECLARED, level=Level.SILENT)
    if finding.verdict == Verdict.NONE:
        finding = _add_partial(question, finding, other_matches)
    return replace(finding, alike=same_recipe, unknown=question.work.unknown)


def _add_partial(question: Question, finding: Finding, matches: Sequence[Match]) -> Finding:
    """Add the completed runs of the same code and parameters whose data or start cannot be
    compared. A person should know of them, though nothing follows from them.
    """
    partial = tuple(
        match
        for match in matches
        if match.kind == Kind.CODE_PARAMS
        and match.relation.seeds != Seeds.OTHER
        and match.past.state in FINISHED_OR_RUNNING
    )
    if not partial or question.intent in DECLARED:
        return finding
    return replace(finding, partial=partial, level=Level.INFORM, certainty=Certainty.POSSIBLE)


def _is_same_run(question: Question, past: PastRun) -> bool:
    """Return whether both are one run: the same external id, or the same curves at the same time
    (a seeded duplicate has them later).
    """
    if (
        question.external is not None
        and question.external in past.external
        and past.uuid != question.run
    ):
        return True
    is_simultaneous = abs(question.now - past.started_us) <= SERIES_US
    return (
        bool(question.series)
        and question.series == past.series
        and is_simultaneous
        and past.uuid != question.run
    )


def _is_same_work(question: Question, past: PastRun) -> bool:
    """Return whether both are parts of one work: itself, parent and child, folds of one parent,
    ranks of a job.
    """
    if past.uuid in (question.run, question.parent):
        return True
    if past.parent is not None and past.parent in (question.run, question.parent):
        return True
    overlaps = past.ended_us is None or past.ended_us > question.now
    return bool(question.job) and past.job == question.job and overlaps


Rule = Callable[[Question, Sequence[Match]], Finding | None]


def _verdict(question: Question, matches: Sequence[Match]) -> Finding:
    """Evaluate the verdicts in order. Verified matches come before possible ones."""
    certain = [match for match in matches if match.verified]
    for considered in (certain, matches):
        for rule in (_concurrent, _will_fail, _resume, _duplicate):
            if finding := rule(question, considered):
                return finding
    for rule in (_may_fail, _near, _sweep, _replicate):
        if finding := rule(question, matches):
            return finding
    return Finding()


def _make_finding(verdict: Verdict, matches: Iterable[Match], level: Level) -> Finding | None:
    """Return a finding if there are matches. A possible one is informational only."""
    ordered = tuple(sorted(matches, key=lambda match: not match.verified))
    if not ordered:
        return None
    if ordered[0].verified:
        return Finding(verdict, Certainty.VERIFIED, level, ordered)
    return Finding(
        verdict,
        Certainty.POSSIBLE,
        Level.SILENT if level == Level.SILENT else Level.INFORM,
        ordered,
    )


def _concurrent(question: Question, matches: Sequence[Match]) -> Finding | None:
    running = (match for match in matches if match.exact and match.past.state == RunState.RUNNING)
    return _make_finding(Verdict.CONCURRENT, running, Level.BLOCK)


def _duplicate(question: Question, matches: Sequence[Match]) -> Finding | None:
    finished = (match for match in matches if match.exact and match.past.state == RunState.FINISHED)
    return _make_finding(Verdict.DUPLICATE, finished, Level.WARN)


def _would_fail_again(question: Question, match: Match) -> bool:
    """Return whether the cause of a failure recurs: an error in the code, or a number that depends
    on the seed; GPU memory on the same GPUs. Other versions may correct an error.
    """
    past, own, other = match.past, question.work, match.past.work
    if match.kind not in (Kind.F1, Kind.CODE_PARAMS) or past.state != RunState.FAILED:
        return False
    if own.environment and other.environment and dict(own.environment) != dict(other.environment):
        return False
    if past.failure == Failure.NOT_A_NUMBER:
        return match.relation.seeds == Seeds.SAME
    if past.failure == Failure.CUDA_MEMORY:
        return bool(own.hardware.get("gpus")) and own.hardware.get("gpus") == other.hardware.get(
            "gpus"
        )
    return past.failure == Failure.USER_ERROR


def _will_fail(question: Question, matches: Sequence[Match]) -> Finding | None:
    doomed = [match for match in matches if _would_fail_again(question, match)]
    points = {match.past.failure_point for match in doomed if match.past.failure_point}
    if not doomed or len(points) > 1:  # it fails here and there: nothing is certain
        return None
    last_us = max(match.past.started_us for match in doomed)
    succeeded = any(
        match.kind in (Kind.F1, Kind.CODE_PARAMS)
        and match.past.state in FINISHED_OR_RUNNING
        and match.past.started_us >= last_us
        for match in matches
    )
    return None if succeeded else _make_finding(Verdict.WILL_FAIL, doomed, Level.WARN)


def _may_fail(question: Question, matches: Sequence[Match]) -> Finding | None:
    """Find runs of the same work that ended by themselves with an error whose cause is unknown,
    unless the work was ever finished.
    """
    same = [match for match in matches if match.kind in (Kind.F1, Kind.CODE_PARAMS)]
    if any(match.past.state in FINISHED_OR_RUNNING for match in same):
        return None
    crashed = tuple(match for match in same if _has_crashed(question, match))
    if not crashed:
        return None
    return Finding(Verdict.WILL_FAIL, Certainty.POSSIBLE, Level.INFORM, crashed)


def _has_crashed(question: Question, match: Match) -> bool:
    past, own, other = match.past, question.work, match.past.work
    same_versions = dict(own.environment) == dict(other.environment)
    return (
        past.state == RunState.FAILED
        and past.failure == ""
        and past.exit_code in EXITS_OF_PROGRAMS
        and match.relation.seeds != Seeds.OTHER
        and (same_versions or not (own.environment and other.environment))
    )


def _resume(question: Question, matches: Sequence[Match]) -> Finding | None:
    """Find a crashed run of the same seed with a checkpoint, unless the work was finished later."""
    same = [match for match in matches if match.kind == Kind.F1]
    if any(match.past.state in FINISHED_OR_RUNNING for match in same):
        return None
    crashed = {RunState.FAILED, RunState.KILLED, RunState.LOST}
    resumable = (
        match for match in same if match.past.state in crashed and match.past.has_checkpoint
    )
    return _make_finding(Verdict.RESUME, resumable, Level.INFORM)


def _near(question: Question, matches: Sequence[Match]) -> Finding | None:
    in_sweep = _declared_sweep(question)
    near = [
        match
        for match in matches
        if match.past.state in FINISHED_OR_RUNNING
        and match.relation.seeds == Seeds.SAME  # without a seed it is another draw
        and (match.kind == Kind.F1N or (not in_sweep and _is_slight_change(match)))
    ]
    return _make_finding(Verdict.NEAR, near, Level.WARN)


def _is_slight_change(match: Match) -> bool:
    relation = match.relation
    same_code = relation.code.matches or relation.normal.matches
    return relation.kind == Kind.F4 and relation.slight and same_code and relation.seeds.matches


def _declared_sweep(question: Question) -> bool:
    return bool(question.sweep) or question.intent == Intent.SWEEP


def _sweep(question: Question, matches: Sequence[Match]) -> Finding | None:
    siblings = [match for match in matches if _sibling(question, match)]
    varied = frozenset().union(*(match.relation.changed or () for match in siblings))
    is_detected = len(siblings) >= SIBLINGS and len(varied) <= SIBLING_KEYS
    if not _declared_sweep(question) and (
        not is_detected or any(_unseeded(match) for match in matches)
    ):
        return None
    return _make_finding(Verdict.SWEEP, siblings, Level.SILENT) or Finding(Verdict.SWEEP)


def _sibling(question: Question, match: Match) -> bool:
    """Find runs of the same family with other values of the same parameters, started within a
    day.
    """
    mine, theirs = question.work.params, match.past.work.params
    if match.kind != Kind.F4 or mine is None or theirs is None or set(mine) != set(theirs):
        return False
    near_code = match.relation.code.matches or match.relation.normal.matches
    return near_code and question.now - match.past.started_us <= SIBLING_US


def _unseeded(match: Match) -> bool:
    """Return whether the same work was done, or is being done, without a seed."""
    return (
        match.kind in (Kind.F1, Kind.F1N)
        and match.relation.seeds == Seeds.UNSET
        and match.past.state in FINISHED_OR_RUNNING
    )


def _replicate(question: Question, matches: Sequence[Match]) -> Finding | None:
    """Repeats with another seed, or without one, are silent up to five: they measure the spread of
    a result.
    """
    completed = [match for match in matches if match.past.state in FINISHED_OR_RUNNING]
    unseeded = [match for match in completed if _unseeded(match)]
    with_other_seed = [match for match in completed if match.kind == Kind.F2]
    seeds = {
        tuple(sorted(match.past.work.seeds.values()))
        for match in with_other_seed
        if match.past.work.seeds
    }
    count = len(seeds) + len(unseeded)
    return _make_finding(
        Verdict.REPLICATE,
        [*unseeded, *with_other_seed],
        Level.INFORM if count >= SEEDS_IN_SILENCE else Level.SILENT,
    )
