"""Client of the expected grid intensity: the greenest start of a job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Mapping, Optional
from urllib.parse import urlencode

from labcarbon_collect.api.transport import InvalidUrlError, ServerUnavailable, Transport
from labcarbon_collect.config import Login

_DEADLINE_S = 15.0
_SOURCES = {
    "forecast": "forecast of the provider",
    "usual": "mean of the last 28 days",
}


class GreenerHoursUnavailable(Exception):
    """The greenest start is unknown. The text has the reason and the fix."""


@dataclass(frozen=True)
class ExpectedStart:
    """A start. ``ug_per_kwh``: the mean over the hours of the job."""

    start_s: float
    ug_per_kwh: int
    source: str


@dataclass(frozen=True)
class GreenestStart:
    """The greenest start, and a start now if its intensity is known."""

    zone: str
    best: ExpectedStart
    now: Optional[ExpectedStart]


def query_greenest_start(
    login: Login, *, node: Optional[str], duration_hours: int, latest_start: datetime
) -> GreenestStart:
    """Query the greenest start until ``latest_start`` (aware) at the site of a node, or at the only
    site of the lab. Raises GreenerHoursUnavailable.
    """
    query = {"duration_hours": str(duration_hours), "latest_start": latest_start.isoformat()}
    if node:
        query["node"] = node
    try:
        transport = Transport(login.url, login.token, deadline_s=_DEADLINE_S)
        reply = transport.call("GET", f"greener-hours/?{urlencode(query)}")
        transport.close()
    except (InvalidUrlError, ServerUnavailable) as error:
        raise GreenerHoursUnavailable(str(error)) from error
    if reply.status in (404, 405):
        raise GreenerHoursUnavailable(f"{login.url} has no forecast. Update the server.")
    if reply.status != 200:
        raise GreenerHoursUnavailable(reply.message)
    return _parse(login.url, reply.body)


def _parse(url: str, body: Any) -> GreenestStart:
    payload: Mapping[str, Any] = body if isinstance(body, dict) else {}
    site, zone = str(payload.get("site"))[:100], payload.get("zone")
    if "best" not in payload:
        raise GreenerHoursUnavailable(f"the response of {url} has an unknown format.")
    if not isinstance(zone, str):
        raise GreenerHoursUnavailable(f"site {site} has no grid zone. Choose it on its page.")
    best = _parse_start(payload.get("best"))
    if best is None:
        raise GreenerHoursUnavailable(
            f"the grid intensity of the coming hours of {zone} is unknown: {url}/greener-hours/"
        )
    return GreenestStart(zone, best, _parse_start(payload.get("now")))


def _parse_start(value: Any) -> Optional[ExpectedStart]:
    if not isinstance(value, dict):
        return None
    start, ug_per_kwh, sources = (value.get(name) for name in ("start", "ug_per_kwh", "sources"))
    try:
        start_s = datetime.fromisoformat(str(start).replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return None
    if not isinstance(ug_per_kwh, int) or ug_per_kwh <= 0:
        return None
    names = [_SOURCES[name] for name in sources or () if name in _SOURCES]
    return ExpectedStart(start_s, ug_per_kwh, " and ".join(names))
