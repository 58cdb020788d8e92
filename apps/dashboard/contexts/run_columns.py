"""Columns that a visitor chooses for the list of runs: parameters and metrics by name."""

from collections.abc import Sequence

from apps.core.errors import InvalidInput
from apps.runs.fingerprint_diff import value_text
from apps.runs.models import Metric, Run
from apps.runs.selectors import fingerprints_of

MOST_COLUMNS = 8
NONE = ""


def asked_columns(text: str) -> list[str]:
    """Return the names in a list with commas, each once. Raises InvalidInput for more than MOST_COLUMNS."""
    names = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if len(names) > MOST_COLUMNS:
        raise InvalidInput(f"{len(names)} columns are more than {MOST_COLUMNS}.", field="columns", hint="Leave some out.")
    return names


def chosen_cells(runs: Sequence[Run], names: Sequence[str]) -> dict[int, list[str]]:
    """Return by the run's key what each has under ``names``: a parameter or a seed, else the last value of a metric; NONE
    where it has neither. Two queries."""
    if not names:
        return {}
    prints = fingerprints_of(runs)
    last = {
        (run_id, name): value
        for run_id, name, value in Metric.objects.filter(run__in=runs, name__in=names).values_list(
            "run_id", "name", "last_value"
        )
    }
    found = {}
    for run in runs:
        kept = prints.get(run.pk)
        told = {**(kept.params or {}), **(kept.seeds or {})} if kept else {}
        found[run.pk] = [
            value_text(kept, name, told[name]) if kept and name in told else _metric(last, run.pk, name) for name in names
        ]
    return found


def _metric(last: dict[tuple[int, str], float | None], run_id: int, name: str) -> str:
    if (run_id, name) not in last:
        return NONE
    value = last[run_id, name]
    return "NaN" if value is None else f"{value:.6g}"
