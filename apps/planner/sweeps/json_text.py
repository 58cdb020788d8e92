"""A grid or a list of runs as JSON. Pure."""

import json
from typing import Any

from apps.core.errors import InvalidInput
from apps.planner.sweeps.sweep import FIELD, Sweep, grid_sweep, list_sweep

_FORM = (
    'Give {"lr": [0.1, 0.01]} for all combinations, or [{"lr": 0.1}, {"lr": 0.01}] for single runs.'
)


def parse_json(text: str) -> Sweep:
    """Return the sweep of a JSON object (values by parameter) or list (parameters by run)."""
    try:
        content = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        place = f" in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InvalidInput(f"This is not JSON: error{place}.", field=FIELD, hint=_FORM) from error
    if isinstance(content, dict):
        return grid_sweep({name: _axis(name, values) for name, values in content.items()})
    if isinstance(content, list) and all(isinstance(point, dict) for point in content):
        return list_sweep(content)
    raise InvalidInput("This is neither a grid nor a list of runs.", field=FIELD, hint=_FORM)


def _axis(name: str, values: Any) -> list[Any]:
    if isinstance(values, dict):
        raise InvalidInput(
            f"Parameter {name!r} is an object, not a list of values.",
            field=FIELD,
            hint="Write the names of nested parameters with dots, such as optim.lr.",
        )
    return values if isinstance(values, list) else [values]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"Parameter {twice!r} occurs twice.", field=FIELD)
    return content


def _refuse_constant(word: str) -> Any:
    raise InvalidInput(
        f"{word} is not a number of JSON.", field=FIELD, hint=f'Write it as text: "{word}".'
    )
