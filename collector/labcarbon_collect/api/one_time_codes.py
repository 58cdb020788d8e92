"""One-time codes: read without showing them to other users, and exchanged for a token."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

from labcarbon_collect.api.transport import InvalidUrlError, ServerUnavailable, Transport
from labcarbon_collect.errors import CommandError

CODE_PAGES = {
    "enrol/": "nodes/enrol/",
    "login/": "login-code/",
}  # endpoint → page that creates its codes
FLEET_PREFIX = "lc_fleet_"  # a fleet token enrols many nodes


def code_url(url: str, path: str) -> str:
    """Return the address at which the server creates codes for an endpoint."""
    return f"{url.rstrip('/')}/{CODE_PAGES[path]}"


def read_code(code_file: Optional[str], *, page: str) -> str:
    """Read the code from a file, from standard input (no terminal, or FILE is "-"), or by a prompt.
    Raises CommandError.

    ``page`` is the address that shows a new code.
    """
    try:
        if code_file and code_file != "-":
            code = Path(code_file).read_text(encoding="utf-8")
            if code.strip().startswith(FLEET_PREFIX) and Path(code_file).stat().st_mode & 0o077:
                raise CommandError(
                    f"{code_file} is readable by others, so its token is no secret: chmod 600 "
                    f"{code_file}"
                )
        elif code_file == "-" or not sys.stdin.isatty():
            code = sys.stdin.readline()
        else:
            code = getpass.getpass("Code from the server's page (not echoed): ")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(
            f"The code could not be read from {code_file or 'standard input'}: {error}"
        ) from error
    if not code.strip():
        raise CommandError(f"No code was given. Copy it from {page}, which shows it only one time")
    return code.strip()


def redeem_code(url: str, path: str, code: str, body: Mapping[str, Any]) -> Dict[str, Any]:
    """Send the code and return the response with its ``token``. Raises CommandError with the
    server's reason.
    """
    try:
        transport = Transport(url)
        reply = transport.call("POST", path, {"code": code, **body})
        transport.close()
    except InvalidUrlError as error:
        raise CommandError(str(error)) from error
    except ServerUnavailable as error:
        raise CommandError(
            f"No response from the server. {error}. The code is still valid: try again"
        ) from error
    if 300 <= reply.status < 400:
        raise CommandError(
            f"{url} redirects to {reply.location[:200]}. Use that address if it is your server"
        )
    if reply.status not in (200, 201) and code.startswith(FLEET_PREFIX):
        raise CommandError(f"{url} rejected the fleet token: {reply.message}")
    if reply.status not in (200, 201):
        raise CommandError(
            f"{url} rejected the code: {reply.message} Create a new code at {code_url(url, path)}"
        )
    if not isinstance(reply.body, dict) or not isinstance(reply.body.get("token"), str):
        raise CommandError(f"{url} did not respond like a LabCarbon server. Check the address")
    return reply.body
