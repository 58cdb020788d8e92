"""A sweep from a text in one of the formats. Pure."""

from collections.abc import Callable, Mapping

from apps.core.errors import InvalidInput, TooLarge
from apps.planner.sweeps.hydra import parse_hydra
from apps.planner.sweeps.json_text import parse_json
from apps.planner.sweeps.sweep import Sweep
from apps.planner.sweeps.wandb import parse_wandb

_MAX_CHARS = {"json": 1_048_576, "hydra": 65_536, "wandb": 65_536}
_PARSERS: Mapping[str, Callable[[str], Sweep]] = {"json": parse_json, "hydra": parse_hydra}


def parse_sweep(format_: str, text: str, runs: int | None) -> Sweep:
    """Return the sweep of a text. Raises InvalidInput or TooLarge with the field."""
    if len(text) > _MAX_CHARS[format_]:
        raise TooLarge(
            f"The text has more than {_MAX_CHARS[format_]} characters.",
            field="text",
            hint="Divide the sweep.",
        )
    if format_ == "wandb":
        return parse_wandb(text, runs=runs)
    if runs is not None:
        raise InvalidInput(
            "The number of runs follows from the text.",
            field="runs",
            hint="Leave it out: only a W&B sweep can need it.",
        )
    return _PARSERS[format_](text)
