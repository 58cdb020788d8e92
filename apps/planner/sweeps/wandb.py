"""The configuration of a W&B sweep, as YAML. Pure."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import yaml

from apps.core.errors import InvalidInput
from apps.planner.sweeps.steps import numbers_between, parse_number
from apps.planner.sweeps.sweep import (
    FIELD,
    MAX_DEPTH,
    Sweep,
    check_runs,
    check_value,
    grid_sweep,
)

_METHODS = ("grid", "random", "bayes")
# Distributions with a finite number of values. All others are continuous.
_GRID = ("constant", "categorical", "int_uniform", "q_uniform")
_CONTINUOUS = (
    "uniform", "log_uniform", "log_uniform_values", "inv_log_uniform", "inv_log_uniform_values",
    "normal", "log_normal", "q_log_uniform", "q_log_uniform_values", "q_normal", "q_log_normal",
    "categorical_w_probabilities", "beta", "q_beta",
)  # fmt: skip
_NEEDED = {"constant": ("value",), "categorical": ("values",), "int_uniform": ("min", "max"),
           "q_uniform": ("min", "max"), "uniform": ("min", "max")}  # fmt: skip
_FORM = "Write it as W&B does: method, and parameters with values, value, or min and max."


class _Loader(yaml.SafeLoader):
    """Loader of plain values, without aliases and without keys that occur twice."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise InvalidInput(
                f"Line {event.start_mark.line + 1} refers to an anchor.",
                field=FIELD,
                hint="Write the values instead of *name.",
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        names = [self.construct_object(key, deep=True) for key, _ in node.value]
        if not all(isinstance(name, str | int | float) for name in names):
            raise InvalidInput(
                f"A name in line {node.start_mark.line + 1} is no text.", field=FIELD
            )
        if twice := [name for name in names if names.count(name) > 1]:
            raise InvalidInput(f"{str(twice[0])!r} occurs twice.", field=FIELD)
        return super().construct_mapping(node, deep=deep)


def parse_wandb(text: str, *, runs: int | None = None) -> Sweep:
    """Return the sweep of a configuration. ``runs``: number of runs without ``run_cap``.

    The points of random and bayes, and of a grid that ``run_cap`` ends early, are unknown: W&B
    chooses them.
    """
    config = _load(text)
    method = config.get("method")
    if method not in _METHODS:
        raise InvalidInput(
            f"'method' is {str(method)[:60]!r}." if method else "'method' is missing.",
            field=FIELD,
            hint=f"Known methods: {', '.join(_METHODS)}.",
        )
    axes: dict[str, list[Any]] = {}
    _add_axes(axes, config.get("parameters"), "", is_grid=method == "grid")
    run_cap = config.get("run_cap", runs)
    if run_cap is not None:
        if isinstance(run_cap, bool) or not isinstance(run_cap, int) or run_cap < 1:
            raise InvalidInput("'run_cap' is not a whole number above 0.", field=FIELD)
        check_runs(run_cap)
    ends_early = bool(config.get("early_terminate"))
    if method != "grid":
        if run_cap is None:
            raise InvalidInput(
                f"The number of runs is unknown: {method} sweeps have no end.",
                field="runs",
                hint="Set run_cap in the file, or state the number of runs.",
            )
        return Sweep(run_cap, ends_early=ends_early)
    sweep = grid_sweep(axes, ends_early=ends_early)
    if run_cap is not None and run_cap < sweep.runs:
        return Sweep(run_cap, axes=axes, ends_early=ends_early)
    return sweep


def _load(text: str) -> dict[str, Any]:
    try:
        config = yaml.load(text, Loader=_Loader)  # noqa: S506 - a subclass of SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f" in line {mark.line + 1}" if mark else ""
        raise InvalidInput(f"This is not YAML: error{place}.", field=FIELD, hint=_FORM) from error
    if not isinstance(config, dict):
        raise InvalidInput("This is not the configuration of a sweep.", field=FIELD, hint=_FORM)
    return config


def _add_axes(
    axes: dict[str, list[Any]], parameters: Any, prefix: str, *, is_grid: bool, depth: int = 0
) -> None:
    """Add the values of each parameter, of nested ones with dots."""
    if not isinstance(parameters, dict) or not parameters:
        name = f"'parameters' of {prefix[:-1]!r}" if prefix else "'parameters'"
        raise InvalidInput(f"{name} has no parameters.", field=FIELD, hint=_FORM)
    if depth > MAX_DEPTH:
        raise InvalidInput(
            f"Parameter {prefix[:60]!r} is nested more than {MAX_DEPTH} deep.", field=FIELD
        )
    for key, rule in parameters.items():
        name = f"{prefix}{key}"
        if not isinstance(rule, dict):
            raise InvalidInput(
                f"Parameter {name!r} has no values.",
                field=FIELD,
                hint="Give it values, value, or min and max.",
            )
        if "parameters" in rule:
            _add_axes(axes, rule["parameters"], f"{name}.", is_grid=is_grid, depth=depth + 1)
        elif name in axes:
            raise InvalidInput(f"Parameter {name!r} occurs twice.", field=FIELD)
        else:
            axes[name] = _axis(name, rule, is_grid=is_grid)


def _axis(name: str, rule: Mapping[str, Any], *, is_grid: bool) -> list[Any]:
    """Return the values of a parameter in a grid. Of other methods, only check the rule."""
    distribution = _distribution(name, rule)
    for key in _NEEDED.get(distribution, ()):
        if key not in rule:
            raise InvalidInput(f"Parameter {name!r} ({distribution}) has no {key!r}.", field=FIELD)
    low, high = (
        parse_number(name, key, rule[key]) if key in rule else None for key in ("min", "max")
    )
    if low is not None and high is not None and low > high:
        raise InvalidInput(f"Parameter {name!r}: min is above max.", field=FIELD)
    if is_grid and (distribution not in _GRID or "probabilities" in rule):
        raise InvalidInput(
            f"Parameter {name!r} ({distribution}) is continuous, so a grid has no end.",
            field=FIELD,
            hint="Give it values, or use the method random.",
        )
    if distribution == "categorical":
        if not isinstance(rule["values"], list):
            raise InvalidInput(f"The values of parameter {name!r} are not a list.", field=FIELD)
        for value in rule["values"]:
            check_value(name, value)
        return [_plain(value) for value in rule["values"]]
    if distribution == "constant":
        check_value(name, rule["value"])
        return [_plain(rule["value"])]
    if not is_grid or low is None or high is None:
        return []
    return _steps(name, distribution, low, high, rule)


def _steps(
    name: str, distribution: str, low: Decimal, high: Decimal, rule: Mapping[str, Any]
) -> list[Any]:
    """Return the values between two bounds: with both for integers, else without the last, as W&B
    does.
    """
    is_whole = distribution == "int_uniform"
    step = Decimal(1) if is_whole else parse_number(name, "q", rule.get("q", 1))
    if step <= 0 or (is_whole and (low % 1 or high % 1)):
        problem = "q is not above 0" if step <= 0 else "min and max are not whole numbers"
        raise InvalidInput(f"Parameter {name!r}: {problem}.", field=FIELD)
    numbers = numbers_between(low, high + 1 if is_whole else high, step)
    return [int(number) if is_whole else float(number) for number in numbers]


def _distribution(name: str, rule: Mapping[str, Any]) -> str:
    distribution = rule.get("distribution")
    if distribution is None:
        if "value" in rule:
            return "constant"
        if "values" in rule:
            return "categorical"
        if "min" not in rule or "max" not in rule:
            raise InvalidInput(
                f"Parameter {name!r} has no values.",
                field=FIELD,
                hint="Give it values, value, or min and max.",
            )
        whole = all(
            isinstance(rule[key], int) and not isinstance(rule[key], bool) for key in ("min", "max")
        )
        return "int_uniform" if whole else "uniform"
    if distribution not in (*_GRID, *_CONTINUOUS):
        raise InvalidInput(
            f"Parameter {name!r}: distribution {str(distribution)[:60]!r} is not known.",
            field=FIELD,
            hint=f"Known: {', '.join((*_GRID, *_CONTINUOUS))}.",
        )
    return str(distribution)


def _plain(value: Any) -> Any:
    """Return a value of YAML as one of JSON: dates are text."""
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, date):
        return value.isoformat()
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)
