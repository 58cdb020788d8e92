"""Works, queries and past runs for tests. Parameters are hashed as in the collector."""

from dataclasses import replace
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid5

from labcarbon_collect.lc1 import param_hash, sort_params

from apps.core.units import US_PER_HOUR
from apps.preflight.similarity import Part, PastRun, Question, Work
from tests.shipped_data import T0

NOW = T0 + 100 * US_PER_HOUR
_SPACE = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
ARGV = {"--lr": "0.1", "--epochs": "10", "--seed": "1", "--out": "runs/a"}


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def part(text: str, *, weak: str | None = None) -> Part:
    """Return a verified part with its weak hash. ``weak``: text of another weak hash."""
    return Part(digest(text), digest(f"weak {text}" if weak is None else weak))


def weak(text: str) -> Part:
    return Part("", digest(f"weak {text}"))


def hashed(argv: dict[str, Any]) -> dict[str, Any]:
    """Return params, seeds, labels and plain values of a command line."""
    found = sort_params(argv)
    return {
        "params": {name: param_hash(name, value) for name, value in found.params.items()},
        "seeds": {name: param_hash(name, value) for name, value in found.seeds.items()},
        "labels": {name: param_hash(name, value) for name, value in found.labels.items()},
        "plain_values": {**found.params, **found.seeds, **found.labels},
    }


def work(
    argv: dict[str, Any] | None = None, *, code: str = "a", normal: str | None = None, **parts: Any
) -> Work:
    """Return a fully known work. ``code``: name of its code state. ``argv``: its parameters."""
    told = hashed(ARGV if argv is None else argv)
    whole = Work(
        entry=digest("train.py"),
        code=Part(digest(f"code {code}")),
        normal=digest(f"normal {code if normal is None else normal}"),
        data=part("cats"),
        start=part("scratch"),
        environment={"python": "3.11.7"},
        hardware={"gpus": "1 × A100"},
        **told,
    )
    return replace(whole, **parts)


def argv(**changed: Any) -> dict[str, Any]:
    """Return the default command line with some values changed. None removes an option."""
    given = ARGV | {f"--{name.replace('_', '-')}": value for name, value in changed.items()}
    return {name: value for name, value in given.items() if value is not None}


def past(
    name: str = "first",
    *,
    hours_ago: float = 50,
    state: str = "finished",
    hours: float = 2,
    **facts: Any,
) -> PastRun:
    """Return a run that started ``hours_ago``. Running and lost runs have no end."""
    started = NOW - int(hours_ago * US_PER_HOUR)
    ended = None if state in ("running", "lost") else started + int(hours * US_PER_HOUR)
    facts.setdefault("work", work())
    return PastRun(uuid=run_uuid(name), state=state, started_us=started, ended_us=ended, **facts)


def run_uuid(name: str) -> UUID:
    return uuid5(_SPACE, name)


def question(**facts: Any) -> Question:
    facts.setdefault("work", work())
    return Question(now=NOW, **facts)
