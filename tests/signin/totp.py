"""An authenticator app, written from RFC 6238 without the library's code."""

import base64
import hashlib
import hmac
import time

STEP_S = 30


def code_at(secret: str, time_s: float) -> str:
    """Return the six digits at a time."""
    digest = hmac.digest(
        base64.b32decode(secret), int(time_s // STEP_S).to_bytes(8, "big"), hashlib.sha1
    )
    offset = digest[-1] & 15
    return f"{(int.from_bytes(digest[offset : offset + 4], 'big') & 0x7FFF_FFFF) % 1_000_000:06d}"


def code_now(secret: str, steps: int = 0) -> str:
    """Return the six digits now, or some steps from now."""
    return code_at(secret, time.time() + steps * STEP_S)
