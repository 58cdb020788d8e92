"""Upload of one W&B run over the REST API. Each request is idempotent, so it may be repeated."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from labcarbon_collect.api.backoff import full_jitter
from labcarbon_collect.api.bulk_uploader import MAX_ATTEMPTS, UploadError
from labcarbon_collect.api.transport import MAX_RETRY_AFTER_S, ServerUnavailable, Transport
from labcarbon_collect.clock import iso
from labcarbon_collect.wandb.offline_run import Point
from labcarbon_collect.wandb.power import GpuEnergy

_MAX_POINTS, _MAX_INTERVALS = 5_000, 1_000
_BUSY = (408, 429, 500, 502, 503, 504)
_ACCEPTED = ("accepted", "duplicate")


class RunRefused(Exception):
    """The server refused this run. The text has the reason. Other runs may be accepted."""


@dataclass
class RunUpload:
    """What the server answered for a run."""

    uuid: str
    warnings: List[str] = field(default_factory=list)


class RunUploader:
    def __init__(
        self,
        transport: Transport,
        *,
        notify: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._transport, self._notify, self._sleep = transport, notify, sleep

    def send(
        self,
        uuid: str,
        facts: Mapping[str, Any],
        points: Sequence[Point],
        energy: Optional[GpuEnergy],
        end: Optional[Mapping[str, Any]],
    ) -> RunUpload:
        """Send a run. Raises RunRefused, and UploadError if no further run can be sent."""
        reply = self._call("PUT", f"runs/{uuid}/", facts)
        upload = RunUpload(str(reply.get("uuid") or uuid))
        if reply.get("warning"):
            upload.warnings.append(str(reply["warning"])[:500])
        path = f"runs/{upload.uuid}/"
        for start in range(0, len(points), _MAX_POINTS):
            rows = [
                [name, step, value if isinstance(value, str) else float(value), iso(at_us)]
                for name, step, value, at_us in points[start : start + _MAX_POINTS]
            ]
            self._call("POST", f"{path}metrics/", {"points": rows})
        if end is not None:
            self._call("PATCH", path, end)
        if energy is not None:  # last, because the server may not know the node
            self._send_energy(path, energy, upload)
        return upload

    def _send_energy(self, path: str, energy: GpuEnergy, upload: RunUpload) -> None:
        refused: Counter[str] = Counter()
        for start in range(0, len(energy.intervals), _MAX_INTERVALS):
            rows = [
                {"component": "gpu", "start": iso(begin), "end": iso(end), "energy_mj": energy_mj}
                for begin, end, energy_mj in energy.intervals[start : start + _MAX_INTERVALS]
            ]
            results = self._call("POST", f"{path}energy/", {"intervals": rows}).get("results")
            if not isinstance(results, list) or len(results) != len(rows):
                raise UploadError(f"{self._transport.url} did not answer for each interval")
            refused.update(
                ": ".join(map(str, result)) for result in results if result[0] not in _ACCEPTED
            )
        for reason, count in refused.items():
            upload.warnings.append(f"energy: {count:,} intervals {reason}"[:500])

    def _call(self, method: str, path: str, body: Mapping[str, Any]) -> Dict[str, Any]:
        reason = ""
        for attempt in range(1, MAX_ATTEMPTS + 1):
            wait_s = full_jitter(attempt)
            try:
                reply = self._transport.call(method, path, body)
            except ServerUnavailable as error:
                reason = str(error)
            else:
                if 200 <= reply.status < 300 and isinstance(reply.body, dict):
                    return reply.body
                reason = f"{self._transport.url} responded {reply.status}: {reply.message}"
                if reply.status == 401:
                    raise UploadError(f"{reason} Log in again: labcarbon-collect login URL")
                if reply.status not in _BUSY:
                    raise RunRefused(f"{method} {path.rpartition('/')[0]}: {reason}")
                if reply.retry_after_s is not None:
                    wait_s = max(wait_s, min(reply.retry_after_s, MAX_RETRY_AFTER_S))
            if attempt < MAX_ATTEMPTS:
                self._notify(f"{reason}; next attempt in {wait_s:.0f} s")
                self._sleep(wait_s)
        raise UploadError(reason)
