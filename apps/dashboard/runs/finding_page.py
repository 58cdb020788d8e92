"""Page object of one duplicate finding."""

from collections.abc import Mapping
from dataclasses import dataclass

from apps.accounts.models import Lab
from apps.carbon.figures.energy import spans_of_runs
from apps.carbon.figures.visibility import Visibility
from apps.dashboard.figures import EnergyAndEmissions
from apps.dashboard.formatting import duration
from apps.dashboard.runs.duplicate_figures import run_pair
from apps.preflight.choices import FindingState, ValueState
from apps.preflight.differences import label_text, value_text
from apps.preflight.finding_roots import first_runs
from apps.preflight.finding_selectors import Sides, compare_runs
from apps.preflight.models import DuplicateFinding
from apps.preflight.presenters import who_of
from apps.preflight.similarity import Likeness, Seeds
from apps.runs.choices import EnergyState
from apps.runs.fingerprint_diff import hash_label
from apps.runs.models import Fingerprint, Run
from apps.runs.selectors import energy_states, metrics_of

_WORDS = {
    Likeness.SAME: "same",
    Likeness.POSSIBLE: "same names, sizes and times",
    Likeness.DIFFERENT: "different",
    Likeness.UNKNOWN: "unknown",
}
_SEEDS = {
    Seeds.SAME: "same",
    Seeds.UNSET: "unset in both",
    Seeds.OTHER: "different",
    Seeds.UNKNOWN: "unknown",
}
_CLASSES = {
    "same": "same",
    "different": "differs",
    "unset in both": "weak",
    "same names, sizes and times": "weak",
}


@dataclass(frozen=True)
class Side:
    """One of the two runs. ``figures`` None: see ``energy_state``. ``first``: the first run of the
    same work, if the original is itself a duplicate.
    """

    title: str
    run: Run
    who: str
    took: str
    figures: EnergyAndEmissions | None
    energy_state: EnergyState
    metric: tuple[str, float] | None
    first: Run | None


@dataclass(frozen=True)
class PartRow:
    """A part of the two fingerprints: short hashes and the result of the comparison."""

    name: str
    here: str
    there: str
    result: str
    mark: str


@dataclass(frozen=True)
class DifferenceRow:
    """A difference."""

    part: str
    name: str
    here: str
    there: str


@dataclass(frozen=True)
class FindingPage:
    """A finding."""

    finding: DuplicateFinding
    sides: list[Side]
    parts: list[PartRow]
    differs: list[DifferenceRow]
    labels: list[str]
    has_missing_values: bool
    same_params: int | None
    ignored: list[str]
    counted: list[str]
    project: str
    decided_by: str
    mine: bool
    states: list[tuple[str, str]]


def finding_page(
    *, lab: Lab, finding: DuplicateFinding, now: int, visibility: Visibility
) -> FindingPage:
    """Return a finding with both of its runs."""
    comparison = compare_runs(finding)
    uuids, original_id = [finding.run.uuid, finding.original.uuid], finding.original_id
    spans = spans_of_runs(lab, uuids)
    states = energy_states(lab, uuids, spans)
    metrics = metrics_of([finding.run_id, finding.original_id])

    def side(title: str, run: Run, first: Run | None = None) -> Side:
        took = duration((run.ended_us if run.ended_us is not None else now) - run.started_us)
        return Side(
            title,
            run,
            who_of(run, visibility),
            took,
            run_pair(lab, run.uuid, spans),
            states[run.uuid],
            metrics.get(run.pk),
            first,
        )

    return FindingPage(
        finding=finding,
        sides=[
            side("Duplicate", finding.run),
            side("Original", finding.original, first_runs([original_id]).get(original_id)),
        ],
        parts=_parts(comparison),
        differs=_differs(comparison),
        labels=_label_texts(finding, comparison),
        has_missing_values=any(
            ValueState.NOT_UPLOADED in (difference.here_state, difference.there_state)
            for difference in comparison.differs
        ),
        same_params=_same_params(comparison),
        ignored=sorted(comparison.ignored & set(comparison.here.params or {})),
        counted=sorted(comparison.works[0].params or {}),
        project=project.name
        if (project := finding.run.charged_project or finding.run.project)
        else "",
        decided_by=finding.decided_by.get_username() if finding.decided_by else "a former member",
        mine=visibility.person_id is not None
        and visibility.person_id in (finding.run.user_id, finding.original.user_id),
        states=[(state.value, str(state.label)) for state in FindingState],
    )


def _hash(digest: str) -> str:
    return hash_label(digest) if digest else ""


def _parts(comparison: Sides) -> list[PartRow]:
    own, other, relation = comparison.here, comparison.there, comparison.relation
    normal = relation.normal if not relation.code.matches else Likeness.SAME
    params = (
        Likeness.UNKNOWN if relation.changed is None else Likeness(3 if not relation.changed else 0)
    )
    rows = [
        ("Script", own.entry_name, other.entry_name, _entry(comparison)),
        (
            "Code hash",
            _hash(own.code or own.code_weak),
            _hash(other.code or other.code_weak),
            _WORDS[relation.code],
        ),
        (
            "Code hash without comments and format",
            _hash(own.code_normal),
            _hash(other.code_normal),
            _WORDS[normal],
        ),
        ("Parameters", _params(own), _params(other), _WORDS[params]),
        ("Labels", _names(own.labels), _names(other.labels), _labels(comparison)),
        (
            "Data",
            _hash(own.data or own.data_weak),
            _hash(other.data or other.data_weak),
            _WORDS[relation.data],
        ),
        (
            "Initial weights",
            _hash(own.start or own.start_weak),
            _hash(other.start or other.start_weak),
            _WORDS[relation.start],
        ),
        ("Seeds", _names(own.seeds), _names(other.seeds), _SEEDS[relation.seeds]),
    ]
    return [
        PartRow(name, own_text or "unknown", other_text or "unknown", text, _CLASSES.get(text, ""))
        for name, own_text, other_text, text in rows
    ]


def _entry(comparison: Sides) -> str:
    if not (comparison.here.entry and comparison.there.entry):
        return "unknown"
    return "same" if comparison.relation.entry else "different"


def _params(fingerprint: Fingerprint) -> str:
    return "none" if fingerprint.params == {} else _hash(fingerprint.recipe)


def _names(hashes: Mapping[str, str] | None) -> str:
    """Return the names of seeds or labels, "" if they are unknown."""
    return "" if hashes is None else ", ".join(sorted(hashes)) or "none"


def _labels(comparison: Sides) -> str:
    if comparison.here.labels is None or comparison.there.labels is None:
        return "unknown"
    return "different" if comparison.relation.labels else "same"


def _same_params(comparison: Sides) -> int | None:
    params, changed = comparison.works[0].params, comparison.relation.changed
    return None if params is None or changed is None else len(set(params) - changed)


def _label_texts(finding: DuplicateFinding, comparison: Sides) -> list[str]:
    """Return the labels of the verdict, with their values as far as they are known."""
    texts = {
        difference.name: label_text(difference)
        for difference in comparison.differs
        if difference.part == "labels"
    }
    return [texts.get(name, name) for name in finding.labels]


def _differs(comparison: Sides) -> list[DifferenceRow]:
    return [
        DifferenceRow(
            difference.part,
            difference.name,
            value_text(difference.here, difference.here_state),
            value_text(difference.there, difference.there_state),
        )
        for difference in comparison.differs
        if difference.part not in ("code", "data", "start")  # shown by the parts
    ]
