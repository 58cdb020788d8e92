"""Ask the server whether a command's work was done already, and tell it what came of its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional

from labcarbon_collect.api.transport import BadAddress, Reply, Transport, Unreachable
from labcarbon_collect.config import Login, is_uuid

VERDICTS = frozenset((
    "duplicate", "concurrent", "will_fail", "resume", "near", "sweep", "replicate", "same_run", "declared", "none",
))  # fmt: skip
LEVELS = ("silent", "inform", "warn", "loud")
STOPPED, WENT_ON = "stopped", "went_on"
# What --enforce stops: all of it is certain to be in vain.
_IN_VAIN = frozenset(("duplicate", "concurrent", "will_fail"))
_MOST_MATCHES, _MOST_OFFERS = 50, 3


class NotAsked(Exception):
    """Nobody answered whether this was done before; the text says why, and what mends it."""


@dataclass(frozen=True)
class Question:
    """What is asked about."""

    fingerprint: Mapping[str, Any]
    name: str
    project: Optional[str] = None
    run: Optional[str] = None
    parent: Optional[str] = None
    job: str = ""  # <cluster>/<id> of the scheduler's job: its ranks are one piece of work

    def body(self) -> Dict[str, Any]:
        """The body of ``POST preflight/``."""
        return {
            "fingerprint": dict(self.fingerprint), "project": self.project, "name": self.name, "run": self.run,
            "parent": self.parent, "external": None, "job": self.job,
        }  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """The server's answer. ``body``: as it came, of which only what is read was checked."""

    verdict: str
    certainty: str
    level: str
    message: str
    asked: str
    matches: List[Mapping[str, Any]]
    estimate: Optional[Mapping[str, Any]]
    body: Mapping[str, Any]

    @property
    def in_vain(self) -> bool:
        """Whether a run that is started now is certain to bring nothing new: ``--enforce`` stops it."""
        return self.verdict in _IN_VAIN and self.certainty == "verified"

    @property
    def worth_saying(self) -> bool:
        """Whether a person should read it."""
        return bool(self.reuse) or (self.verdict != "none" and self.level != "silent")

    @property
    def reuse(self) -> List[Mapping[str, Any]]:
        """Models that could be adapted instead of training anew."""
        told = self.body.get("reuse")
        found: List[Mapping[str, Any]] = [each for each in told if isinstance(each, dict)] if isinstance(told, list) else []
        return found[:_MOST_OFFERS]


def ask(login: Login, question: Question, *, deadline_s: float) -> Answer:
    """Ask. Raises NotAsked when no answer comes that can be understood."""
    return read_answer(login.url, _post(login, "preflight/", question.body(), deadline_s))


def tell_outcome(login: Login, answer: Answer, outcome: str, *, deadline_s: float) -> bool:
    """Tell the server that the command was ``stopped`` or ``went_on``. Returns whether it knows."""
    if not answer.asked:
        return False
    try:
        _post(login, f"preflight/{answer.asked}/outcome/", {"outcome": outcome}, deadline_s)
    except NotAsked:
        return False
    return True


def read_answer(url: str, body: Any) -> Answer:
    """The answer of a server. Raises NotAsked for anything that is none."""
    told = body if isinstance(body, dict) else {}
    verdict, level, message, asked = (told.get(name) for name in ("verdict", "level", "message", "asked"))
    if not isinstance(message, str) or str(verdict) not in VERDICTS or str(level) not in LEVELS:
        raise NotAsked(f"{url} gave no answer that this collector understands: is one of the two too old?")
    matches, estimate = told.get("matches"), told.get("estimate")
    found: List[Mapping[str, Any]] = (
        [each for each in matches if isinstance(each, dict)] if isinstance(matches, list) else []
    )
    return Answer(
        verdict=str(verdict), certainty=str(told.get("certainty") or ""), level=str(level), message=message,
        asked=str(asked) if is_uuid(asked) or isinstance(asked, int) else "",
        matches=found[:_MOST_MATCHES], estimate=estimate if isinstance(estimate, dict) else None, body=told,
    )  # fmt: skip


def _post(login: Login, path: str, body: Mapping[str, Any], deadline_s: float) -> Any:
    try:
        transport = Transport(login.url, login.token, deadline_s=max(0.05, deadline_s))
        reply = transport.call("POST", path, body)
        transport.close()
    except (BadAddress, Unreachable) as error:
        raise NotAsked(str(error)) from error
    if not 200 <= reply.status < 300:
        raise NotAsked(_refusal(login, reply))
    return reply.body


def _refusal(login: Login, reply: Reply) -> str:
    if reply.status in (401, 403):
        return f"{login.url} refuses this token ({reply.message}): labcarbon-collect login {login.url}"
    if reply.status in (404, 405):
        return f"{login.url} cannot tell yet what was run before ({reply.message}): it is older than this collector"
    return f"{login.url} answered {reply.status}: {reply.message}"
