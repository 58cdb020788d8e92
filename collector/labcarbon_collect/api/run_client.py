"""Reports of a run to the server that never delay the command."""

from __future__ import annotations

import threading
from typing import Any, Callable, Mapping, Optional

from labcarbon_collect.api.former_fingerprint import call_with_fingerprint
from labcarbon_collect.api.transport import InvalidUrlError, Response, ServerUnavailable, Transport
from labcarbon_collect.config import Login
from labcarbon_collect.files.read_limits import Budget, Deadline, no_response_text


class RunReporter:
    """PUT at the start in the background, PATCH at the end within a time limit, with a user's
    token.
    """

    def __init__(
        self, login: Login, run: str, *, notify: Callable[[str], None], timeout_s: float
    ) -> None:
        self._login, self._run, self._notify, self._timeout_s = login, run, notify, timeout_s
        self.is_registered = False
        self.error = ""  # why the server does not know the run
        self._thread: Optional[threading.Thread] = None

    def start(self, facts: Mapping[str, Any]) -> None:
        """Send the run's facts in the background."""
        self._thread = threading.Thread(
            target=self._put, args=(facts,), name="put-run", daemon=True
        )
        self._thread.start()

    def wait(self, wait_s: float) -> None:
        """Wait for the response to :meth:`start`."""
        if self._thread is not None:
            self._thread.join(wait_s)

    def update_fingerprint(self, fingerprint: Mapping[str, Any]) -> bool:
        """Send new fingerprint parts once the server knows the run. Returns whether it accepted
        them.
        """
        if self._thread is not None:
            self._thread.join()
        return self.is_registered and self._send("PATCH", {"fingerprint": fingerprint}) is not None

    def patch(self, body: Mapping[str, Any]) -> bool:
        """Send facts of a run that the server already knows. Returns whether it accepted them."""
        return self._send("PATCH", body) is not None

    def finish(
        self, facts: Mapping[str, Any], closing: Mapping[str, Any], budget: Optional[Budget] = None
    ) -> bool:
        """Send the end, and the facts again if they did not arrive. Returns whether the server has
        both.

        ``budget`` replaces the default time limit.
        """
        budget = budget or Budget(self._timeout_s)
        call = Deadline("end", lambda: self._send_end(facts, closing))
        delivered = call.wait(budget)
        if delivered is None:
            self.error = no_response_text(self._login.url, call.elapsed_s, budget)
        return bool(delivered)

    def _send_end(self, facts: Mapping[str, Any], closing: Mapping[str, Any]) -> bool:
        if self._thread is not None:
            self._thread.join()
        if not self.is_registered:
            self._put(facts)
        return self.is_registered and self._send("PATCH", closing) is not None

    def _put(self, facts: Mapping[str, Any]) -> None:
        reply = self._send("PUT", facts)
        if reply is None:
            return
        self.is_registered = True
        warning = reply.body.get("warning") if isinstance(reply.body, dict) else None
        if warning:
            self._notify(str(warning)[:500])

    def _send(self, verb: str, body: Mapping[str, Any]) -> Optional[Response]:
        try:
            transport = Transport(self._login.url, self._login.token)
            reply = call_with_fingerprint(transport, verb, f"runs/{self._run}/", body)
            transport.close()
        except (InvalidUrlError, ServerUnavailable) as error:
            self.error = str(error)
            return None
        if 200 <= reply.status < 300:
            return reply
        self.error = f"{self._login.url} responded {reply.status}: {reply.message}"
        if reply.status in (401, 403):
            self.error += f" Log in again: labcarbon-collect login {self._login.url}"
        return None
