"""Pushes rows of history in bulk: patient with a server that is busy, exact about what became of every row."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Sequence, Tuple

from labcarbon_collect.push import full_jitter
from labcarbon_collect.transport import MAX_RETRY_AFTER_S, Transport, Unreachable

MAX_ROWS = 1000
MAX_TRIES = 8
MAX_ERRORS_KEPT = 1000
RESULTS = ("created", "changed", "unchanged", "refused")


class PushEnded(Exception):
    """The server did not take a batch; the text says why. What was answered before is stored."""


@dataclass
class Outcome:
    """What became of the rows so far."""

    counts: Dict[str, int] = field(default_factory=lambda: dict.fromkeys(RESULTS, 0))
    errors: List[Tuple[str, str]] = field(default_factory=list)  # (where, why)

    @property
    def rows(self) -> int:
        return sum(self.counts.values())

    def refuse(self, where: str, why: str) -> None:
        """Note a row that is not stored."""
        self.counts["refused"] += 1
        if len(self.errors) < MAX_ERRORS_KEPT:
            self.errors.append((where, why))


class BulkPush:
    """Sends batches to one endpoint that answers ``{"results": [[result, why?], …]}`` row by row."""

    def __init__(
        self,
        transport: Transport,
        path: str,
        *,
        say: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._transport, self._path, self._say, self._sleep = transport, path, say, sleep
        self.outcome = Outcome()

    def send(self, rows: Sequence[Tuple[str, Dict[str, Any]]]) -> None:
        """Send (where from, row)s; returns once each is answered. Raises PushEnded."""
        if not rows:
            return
        answers = self._answers({"runs": [row for _, row in rows]})
        if len(answers) != len(rows):
            raise PushEnded(f"{self._transport.url} answered {len(answers)} of {len(rows)} rows")
        for (where, _), answer in zip(rows, answers):
            result = str(answer[0]) if isinstance(answer, list) and answer else ""
            if result == "refused" or result not in RESULTS:
                self.outcome.refuse(where, str(answer[1]) if len(answer) > 1 else f"not understood: {answer!r:.100}")
            else:
                self.outcome.counts[result] += 1

    def _answers(self, body: Dict[str, Any]) -> List[Any]:
        why = ""
        for failures in range(1, MAX_TRIES + 1):
            wait_s = full_jitter(failures)
            try:
                reply = self._transport.call("POST", self._path, body)
            except Unreachable as error:
                why = str(error)
            else:
                results = reply.body.get("results") if isinstance(reply.body, dict) else None
                if reply.status == 200 and isinstance(results, list):
                    return results
                why = f"{self._transport.url} answered {reply.status}: {reply.message}"
                if reply.status not in (429, 500, 502, 503, 504):
                    raise PushEnded(why)
                if reply.retry_after_s is not None:
                    wait_s = max(wait_s, min(reply.retry_after_s, MAX_RETRY_AFTER_S))
            if failures < MAX_TRIES:
                self._say(f"{why}; again in {wait_s:.0f} s")
                self._sleep(wait_s)
        raise PushEnded(why)
