"""Report to the server why the daemon does not measure."""

from __future__ import annotations

import os
import pwd
import re
from contextlib import ExitStack, closing, suppress
from typing import Mapping

from labcarbon_collect.api.transport import InvalidUrlError, ServerUnavailable, Transport
from labcarbon_collect.config import data_dir, read_enrolment
from labcarbon_collect.locks import AlreadyRunning, lock_node
from labcarbon_collect.node_identity import ConfigurationError, node_identity
from labcarbon_collect.processes.login_definitions import first_person_uid
from labcarbon_collect.pseudonyms import DROPPED, current_user_name, replace_name
from labcarbon_collect.redaction import mask_text

_DEADLINE_S = 5.0
_MAX_CHARACTERS = 300
_HOME_FOLDER = "(home folder)"
_REST = r"[^\s:;,()'\"]*"
_HOMES = re.compile(rf"(?<![\w.-])(?:/home/|/Users/|/root(?![\w-])|~){_REST}")
_UIDS = re.compile(r"\b(uid |chown (?:-R )?)\d+")


def report_start_problem(
    environ: Mapping[str, str], reason: str, *, is_locked: bool = False
) -> bool:
    """Report the reason under the token of this node. Return whether the server accepted it.

    Without a token, without a server, or beside a running daemon of this node, nothing is sent.
    ``is_locked``: the caller is that daemon. Takes at most five seconds.
    """
    home = data_dir(environ) / "collector"
    if not home.is_dir():
        return False
    try:
        node = node_identity(home, environ)
        login = read_enrolment(home, environ, node.uuid)
        if login is None:
            return False
        with ExitStack() as stack:
            if not is_locked:
                stack.enter_context(lock_node(node.uuid))
            transport = Transport(login.url, login.token, deadline_s=_DEADLINE_S)
            stack.enter_context(closing(transport))
            response = transport.call("POST", "nodes/problem/", {"message": public_reason(reason)})
            return response.status == 200
    except (
        AlreadyRunning,
        ConfigurationError,
        InvalidUrlError,
        ServerUnavailable,
        OSError,
        ValueError,
    ):
        return False


def public_reason(reason: str) -> str:
    """Return the reason as it may be sent: one short line without secrets, home folders, uids and
    the name of a person.
    """
    text = mask_text(" ".join(reason.split()))
    text = _UIDS.sub(rf"\g<1>{DROPPED}", _HOMES.sub(_HOME_FOLDER, _without_own_home(text)))
    if os.getuid() >= first_person_uid():
        text = str(replace_name(text, current_user_name(), DROPPED))
    text = text or "unknown reason"
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "…"


def _without_own_home(text: str) -> str:
    """Return the text without paths in this user's home folders, wherever they are."""
    homes = {os.environ.get("HOME", "")}
    with suppress(KeyError):
        homes.add(pwd.getpwuid(os.getuid()).pw_dir)
    for home in sorted((home.rstrip("/") for home in homes), key=len, reverse=True):
        if home.count("/") >= 1 and len(home) > 1:
            text = re.sub(rf"(?<![\w.-]){re.escape(home)}(?![\w-]){_REST}", _HOME_FOLDER, text)
    return text
