"""What the environment says: every setting a user may turn, read in one place and documented in docs/install.md."""

import os
import re
from dataclasses import dataclass, field
from email.utils import parseaddr
from pathlib import Path
from urllib.parse import unquote, urlsplit

from apps.core.url_allowlist import parse_allowlist

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


BASE_DIR = Path(__file__).resolve().parent.parent


class EnvironmentProblem(Exception):
    """An environment variable that cannot be used; the text says which and what to write instead."""


def _flag(name: str) -> bool:
    text = os.environ.get(name, "0").strip().lower()
    if text not in {"0", "1", "true", "false", "yes", "no", ""}:
        raise EnvironmentProblem(f"{name}={text!r} is neither 1 nor 0.")
    return text in {"1", "true", "yes"}


def _words(name: str) -> list[str]:
    return [word.strip() for word in os.environ.get(name, "").split(",") if word.strip()]


def _packs() -> list[str] | None:
    """Return the names of the data packs to load; None: all of them."""
    words = _words("LABCARBON_DATA_PACKS") or ["all"]
    if words == ["all"]:
        return None
    return [] if words == ["none"] else words


def _tracker_hosts() -> list[str]:
    """Return the hosts and networks of the inside that trackers' servers may stand at."""
    words = _words("LABCARBON_TRACKER_HOSTS")
    try:
        parse_allowlist(words, loopback=False)
    except ValueError as error:
        raise EnvironmentProblem(
            f"LABCARBON_TRACKER_HOSTS: {error}. Write host names, host:port or networks such as 10.2.0.0/16, with commas."
        ) from error
    return words


def _oidc_secret() -> str:
    """Return the client secret from its variable, else from the file that LABCARBON_OIDC_CLIENT_SECRET_FILE names."""
    path = os.environ.get("LABCARBON_OIDC_CLIENT_SECRET_FILE", "")
    value = os.environ.get("LABCARBON_OIDC_CLIENT_SECRET", "")
    if value or not path:
        return value
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise EnvironmentProblem(
            f"LABCARBON_OIDC_CLIENT_SECRET_FILE={path} cannot be read ({error.strerror}). "
            "Write the client secret into that file and let the server's user read it."
        ) from error


def _secret(name: str, path: Path) -> str:
    """Return the secret in variable ``name``, else the one in ``path``, else ''."""
    value = os.environ.get(name, "")
    if value or not path.is_file():
        return value
    return path.read_text(encoding="ascii").strip()


@dataclass(frozen=True)
class Oidc:
    """The lab's identity provider (OpenID Connect); all empty where there is none."""

    issuer: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    name: str = ""

    @property
    def missing(self) -> list[str]:
        """The variables that are needed beside those that are set; [] where all or none are."""
        values = {
            "LABCARBON_OIDC_ISSUER": self.issuer,
            "LABCARBON_OIDC_CLIENT_ID": self.client_id,
            "LABCARBON_OIDC_CLIENT_SECRET": self.client_secret,
        }
        return [name for name, value in values.items() if not value] if any((*values.values(), self.name)) else []

    @property
    def on(self) -> bool:
        return bool(self.issuer) and not self.missing


@dataclass(frozen=True)
class Environment:
    """The settings of one installation."""

    data_dir: Path
    static_dir: Path
    port: int
    debug: bool
    url: str
    secret_key: str
    token_peppers: dict[int, bytes]
    database_url: str
    redis_url: str
    allowed_hosts: list[str]
    behind_proxy: bool
    oidc: Oidc = field(default_factory=Oidc)
    mail: Mail = field(default_factory=Mail)
    data_packs: list[str] | None = None
    tracker_hosts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def served(self) -> bool:
        """True when other machines share the work (PostgreSQL), False when embedded (SQLite)."""
        return bool(self.database_url) and not self.database_url.startswith("sqlite")

    @property
    def loopback_only(self) -> bool:
        return urlsplit(self.url).hostname in {"127.0.0.1", "localhost", "::1"}


def _peppers(data_dir: Path) -> dict[int, bytes]:
    """Parse ``1:hex,2:hex``: the highest number signs, all verify."""
    text = _secret("LABCARBON_TOKEN_PEPPERS", data_dir / "token_peppers")
    peppers: dict[int, bytes] = {}
    for part in filter(None, text.split(",")):
        number, _, value = part.partition(":")
        try:
            peppers[int(number)] = bytes.fromhex(value.strip())
        except ValueError as error:
            raise EnvironmentProblem(
                "LABCARBON_TOKEN_PEPPERS must read like 1:0123abcd…,2:4567ef…: a number, a colon, "
                "at least 32 hexadecimal digits."
            ) from error
    return peppers


def _mail(data_dir: Path) -> Mail:
    """Return the mail server of LABCARBON_EMAIL_URL, else of the file ``email_url`` in the data directory."""
    url = _secret("LABCARBON_EMAIL_URL", data_dir / "email_url").strip()
    try:
        return mail_of(url, os.environ.get("LABCARBON_EMAIL_FROM", "").strip())
    except ValueError as error:
        raise EnvironmentProblem(str(error)) from error


def read_environment() -> Environment:
    """Read all settings from the environment and from the secrets kept in the data directory."""
    data_dir = Path(os.environ.get("LABCARBON_DATA", BASE_DIR / "var")).expanduser().resolve()
    try:
        port = int(os.environ.get("LABCARBON_PORT", "8000"))
    except ValueError as error:
        raise EnvironmentProblem("LABCARBON_PORT must be a port number such as 8000.") from error
    if not 0 < port < 65_536:
        raise EnvironmentProblem(f"LABCARBON_PORT must be a port number from 1 to 65535 such as 8000, not {port}.")
    url = os.environ.get("LABCARBON_SITE_URL", f"http://127.0.0.1:{port}").rstrip("/")
    return Environment(
        data_dir=data_dir,
        static_dir=Path(os.environ.get("LABCARBON_STATIC", data_dir / "static")).expanduser().resolve(),
        port=port,
        debug=_flag("LABCARBON_DEBUG"),
        url=url,
        secret_key=_secret("LABCARBON_SECRET_KEY", data_dir / "secret_key"),
        token_peppers=_peppers(data_dir),
        database_url=os.environ.get("LABCARBON_DATABASE_URL", ""),
        redis_url=os.environ.get("LABCARBON_REDIS_URL", ""),
        allowed_hosts=_words("LABCARBON_ALLOWED_HOSTS"),
        behind_proxy=_flag("LABCARBON_BEHIND_TLS_PROXY"),
        oidc=Oidc(
            issuer=os.environ.get("LABCARBON_OIDC_ISSUER", "").strip(),
            client_id=os.environ.get("LABCARBON_OIDC_CLIENT_ID", "").strip(),
            client_secret=_oidc_secret(),
            name=os.environ.get("LABCARBON_OIDC_NAME", "").strip(),
        ),
        mail=_mail(data_dir),
        data_packs=_packs(),
        tracker_hosts=_tracker_hosts(),
    )
