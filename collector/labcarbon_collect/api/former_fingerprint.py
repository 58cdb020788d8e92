"""Calls to a server that does not know the present version of the fingerprint.

Such a server gets version lc1, with code that counts as weak: its rule would call runs certain
duplicates that differ in their entry or in a label.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping

from labcarbon_collect.api.transport import Response, Transport

_FORMER_VERSION = "lc1"
_NEW_KEYS = ("labels", "not_compared")
_FIELD = "fingerprint.version"


def call_with_fingerprint(transport: Transport, verb: str, path: str, body: Any) -> Response:
    """Send a request whose body may have a ``fingerprint``. Raises as ``Transport.call``."""
    response = transport.call(verb, path, body)
    fingerprint = body.get("fingerprint") if isinstance(body, Mapping) else None
    if response.status == 400 and response.error_field == _FIELD and fingerprint:
        former = {**body, "fingerprint": former_fingerprint(fingerprint)}
        return transport.call(verb, path, former)
    return response


def former_fingerprint(fingerprint: Mapping[str, Any]) -> Dict[str, Any]:
    """Return a fingerprint in version lc1."""
    former = {name: value for name, value in fingerprint.items() if name not in _NEW_KEYS}
    former["version"] = _FORMER_VERSION
    if "dropped" in former:
        former["dropped"] = sorted(former["dropped"])
    code = former.get("code")
    if isinstance(code, Mapping) and code.get("hash"):
        former["code"] = {**code, "state": "weak"}
    return former
