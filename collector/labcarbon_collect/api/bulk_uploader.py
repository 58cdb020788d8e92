"""Pushes rows in bulk: patient with a server that is busy, exact about what became of every row."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from labcarbon_collect.api.backoff import full_jitter
from labcarbon_collect.api.transport import MAX_RETRY_AFTER_S, Transport, Unreachable

MAX_ROWS = 1000
MAX_TRIES = 8
MAX_ERRORS_KEPT = 1000
RESULTS = ("created", "changed", "unchanged", "refused")


MAX_NOTES_KEPT = 20


class PushEnded(Exception):
    """The server did not take a batch; the text says why. What was answered before is stored.

    ``refused``: it said no, so that the same again will not do; else it was away or busy for too long.
    """

    def __init__(self, why: str, *, refused: bool = False) -> None:
        super().__init__(why)
        self.refused = refused


@dataclass
class Outcome:
    """What became of the rows so far."""

    counts: Dict[str, int] = field(default_factory=lambda: dict.fromkeys(RESULTS, 0))
    errors: List[Tuple[str, str]] = field(default_factory=list)  # (where, why)
    notes: Dict[str, int] = field(default_factory=dict)  # what was said of rows that are stored, and of how many

    @property
    def rows(self) -> int:
        return sum(self.counts.values())

    def refuse(self, where: str, why: str) -> None:
        """Note a row that is not stored."""
        self.counts["refused"] += 1
        if len(self.errors) < MAX_ERRORS_KEPT:
            self.errors.append((where, why))

    def note(self, text: str) -> None:
        """Count what was said of a row that is stored."""
        if text in self.notes or len(self.notes) < MAX_NOTES_KEPT:
            self.notes[text] = self.notes.get(text, 0) + 1


class BulkPush:
    """Sends batches to one endpoint that answers ``{"results": [[result, why?], …]}`` row by row.

    The rows stand under ``key``, with ``beside`` (the node they are told of) in each request.
    """

    def __init__(
        self,
        transport: Transport,
        path: str,
        *,
        say: Callable[[str], None],
        key: str = "runs",
        beside: Optional[Mapping[str, Any]] = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._transport, self._path, self._say, self._sleep = transport, path, say, sleep
        self._key, self._beside = key, dict(beside or {})
        self.outcome = Outcome()

    def send(self, rows: Sequence[Tuple[str, Mapping[str, Any]]]) -> List[str]:
        """Send (where from, row)s; returns each one's result once all are answered. Raises PushEnded."""
        if not rows:
            return []
        answers = self._rows({**self._beside, self._key: [row for _, row in rows]})
        if len(answers) != len(rows):
            raise PushEnded(f"{self._transport.url} answered {len(answers)} of {len(rows)} rows")
        return [self._took(where, answer) for (where, _), answer in zip(rows, answers)]

    def tell(self, body: Mapping[str, Any]) -> Dict[str, Any]:
        """Send what is answered as a whole; returns the answer. Raises PushEnded."""
        return self._answer({**self._beside, **body}, bool)

    def _took(self, where: str, answer: Any) -> str:
        words = [str(word) for word in answer] if isinstance(answer, list) and answer else [""]
        result = words[0]
        if result == "refused" or result not in RESULTS:
            self.outcome.refuse(where, words[1] if len(words) > 1 else f"not understood: {answer!r:.100}")
            return "refused"
        self.outcome.counts[result] += 1
        for word in words[1:]:
            self.outcome.note(word)
        return result

    def _rows(self, body: Dict[str, Any]) -> List[Any]:
        answer = self._answer(body, lambda answer: isinstance(answer.get("results"), list))
        return list(answer["results"])

    def _answer(self, body: Dict[str, Any], is_good: Callable[[Dict[str, Any]], bool]) -> Dict[str, Any]:
        why = ""
        for failures in range(1, MAX_TRIES + 1):
            wait_s = full_jitter(failures)
            try:
                reply = self._transport.call("POST", self._path, body)
            except Unreachable as error:
                why = str(error)
            else:
                if reply.status == 200 and isinstance(reply.body, dict) and is_good(reply.body):
                    return reply.body
                why = f"{self._transport.url} answered {reply.status}: {reply.message}"
                if reply.status not in (429, 500, 502, 503, 504):
                    raise PushEnded(why, refused=True)
                if reply.retry_after_s is not None:
                    wait_s = max(wait_s, min(reply.retry_after_s, MAX_RETRY_AFTER_S))
            if failures < MAX_TRIES:
                self._say(f"{why}; again in {wait_s:.0f} s")
                self._sleep(wait_s)
        raise PushEnded(why)
