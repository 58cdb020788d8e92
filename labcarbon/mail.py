"""The mail server that LabCarbon sends by: what LABCARBON_EMAIL_URL and LABCARBON_EMAIL_FROM say."""

import re
from dataclasses import dataclass, field
from email.utils import parseaddr
from urllib.parse import unquote, urlsplit

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_PORTS = {"smtp": 587, "smtps": 465}
_ADDRESS = re.compile(r"[^@\s<>]+@[^@\s<>]+")


@dataclass(frozen=True)
class Mail:
    """A mail server and the address that mails are from; host empty where none is set.

    ``tls``: "implicit" (smtps://), "starttls" (smtp://), or "none", on this machine only: no mail and no password crosses a
    network in the clear.
    """

    host: str = ""
    port: int = 0
    user: str = ""
    password: str = field(default="", repr=False)
    tls: str = ""
    sender: str = ""

    @property
    def on(self) -> bool:
        return bool(self.host)


def mail_of(url: str, sender: str) -> Mail:
    """Return what an address such as ``smtp://user:password@mail.example.org:587`` says. Raises ValueError, which names no
    password."""
    if not url and not sender:
        return Mail()
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("LABCARBON_EMAIL_URL must read like smtp://user:password@mail.example.org:587, or smtps://…:465.")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("LABCARBON_EMAIL_URL ends with the port; write %2F, %3F and %23 for /, ? and # in the password.")
    if not _ADDRESS.fullmatch(parseaddr(sender)[1]) or "\n" in sender:
        raise ValueError("LABCARBON_EMAIL_FROM must be the address that mails are from, such as labcarbon@example.org.")
    try:
        port = parts.port or _PORTS[parts.scheme]
    except ValueError as error:
        raise ValueError("The port in LABCARBON_EMAIL_URL is none.") from error
    tls = "implicit" if parts.scheme == "smtps" else "none" if parts.hostname in _LOOPBACK else "starttls"
    return Mail(parts.hostname, port, unquote(parts.username or ""), unquote(parts.password or ""), tls, sender)
