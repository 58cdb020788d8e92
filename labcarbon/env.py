"""Reads all settings from environment variables. They are documented in docs/install.md."""

import os
import re
import sys
from dataclasses import dataclass, field
from email.utils import parseaddr
from pathlib import Path
from urllib.parse import unquote, urlsplit

from apps.carbon.providers.registry import PROVIDERS
from apps.core.errors import InvalidInput
from apps.core.url_allowlist import parse_address, parse_allowlist

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_PORTS = {"smtp": 587, "smtps": 465}
_ADDRESS = re.compile(r"[^@\s<>]+@[^@\s<>]+")


@dataclass(frozen=True)
class Mail:
    """A mail server and the sender address. Host is empty if none is set.

    ``tls``: "implicit" (smtps://), "starttls" (smtp://), or "none" for a local mail server only.
    Mail and passwords are never sent unencrypted over a network.
    """

    host: str = ""
    port: int = 0
    user: str = ""
    password: str = field(default="", repr=False)
    tls: str = ""
    sender: str = ""

    @property
    def is_enabled(self) -> bool:
        return bool(self.host)


def parse_mail_url(url: str, sender: str) -> Mail:
    """Parse a URL such as ``smtp://user:password@mail.example.org:587``. Raises ValueError without
    the password in its text.
    """
    if not url and not sender:
        return Mail()
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(
            "LABCARBON_EMAIL_URL must have the form smtp://user:password@mail.example.org:587, or "
            "smtps://…:465."
        )
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(
            "LABCARBON_EMAIL_URL must end with the port. Write %2F, %3F and %23 for /, ? and # in "
            "the password."
        )
    if not _ADDRESS.fullmatch(parseaddr(sender)[1]) or "\n" in sender:
        raise ValueError(
            "LABCARBON_EMAIL_FROM must be the sender address, such as labcarbon@example.org."
        )
    try:
        port = parts.port or _PORTS[parts.scheme]
    except ValueError as error:
        raise ValueError("The port in LABCARBON_EMAIL_URL is invalid.") from error
    tls = (
        "implicit"
        if parts.scheme == "smtps"
        else "none"
        if parts.hostname in _LOOPBACK
        else "starttls"
    )
    return Mail(
        parts.hostname,
        port,
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        tls,
        sender,
    )


BASE_DIR = Path(__file__).resolve().parent.parent
# Beside the installed packages: the files of nodes belong to a version of the program.
WHEELS_DIR = Path(sys.prefix) / "share" / "labcarbon" / "wheels"


class ConfigurationError(Exception):
    """An invalid environment variable. The text says which one and how to correct it."""


def _read_flag(name: str) -> bool:
    text = os.environ.get(name, "0").strip().lower()
    if text not in {"0", "1", "true", "false", "yes", "no", ""}:
        raise ConfigurationError(f"{name}={text!r} must be 1 or 0.")
    return text in {"1", "true", "yes"}


def _read_days(name: str, default: int) -> int:
    """Return a number of days, at least 1."""
    text = os.environ.get(name, "").strip() or str(default)
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= 36_500:
        raise ConfigurationError(f"{name}={text!r} must be a number of days from 1 to 36500.")
    return int(text)


def _read_megabytes(name: str, default: int) -> int:
    """Return a number of megabytes; 0 is none."""
    text = os.environ.get(name, "").strip() or str(default)
    if not text.isascii() or not text.isdecimal() or int(text) > 10_000_000:
        raise ConfigurationError(f"{name}={text!r} must be a number of megabytes, such as 1000.")
    return int(text)


def _read_list(name: str) -> list[str]:
    return [word.strip() for word in os.environ.get(name, "").split(",") if word.strip()]


def _read_data_packs() -> list[str] | None:
    """Return the names of the data packs to load. None: all."""
    words = _read_list("LABCARBON_DATA_PACKS") or ["all"]
    if words == ["all"]:
        return None
    return [] if words == ["none"] else words


def _read_tracker_hosts() -> list[str]:
    """Return the internal hosts and networks that tracker servers may have."""
    words = _read_list("LABCARBON_TRACKER_HOSTS")
    try:
        parse_allowlist(words, loopback=False)
    except ValueError as error:
        raise ConfigurationError(
            f"LABCARBON_TRACKER_HOSTS: {error}. "
            "Use host names, host:port or networks such as 10.2.0.0/16, separated by commas."
        ) from error
    return words


def _read_asset_sources() -> list[str]:
    """Return the addresses of servers whose hardware lists may be polled."""
    addresses = []
    for word in _read_list("LABCARBON_ASSET_SOURCES"):
        try:
            addresses.append(str(parse_address(word)))
        except InvalidInput as error:
            raise ConfigurationError(
                f"LABCARBON_ASSET_SOURCES: {word!r} is invalid. {error.message} Use addresses "
                "such as https://netbox.example.org, separated by commas."
            ) from error
    return addresses


def _read_grid_providers() -> dict[str, str]:
    """Return the addresses that replace those of providers of grid intensity, by provider."""
    addresses = {}
    for word in _read_list("LABCARBON_GRID_PROVIDERS"):
        name, _, address = word.partition("=")
        known = [each for each, provider in PROVIDERS.items() if provider.web is not None]
        try:
            if name not in known:
                raise InvalidInput(f"Known providers: {', '.join(known)}.")
            addresses[name] = str(parse_address(address))
        except InvalidInput as error:
            raise ConfigurationError(
                f"LABCARBON_GRID_PROVIDERS: {word!r} is invalid. {error.message} Use entries "
                "such as electricity_maps=https://mirror.example.org, separated by commas."
            ) from error
    return addresses


def _read_oidc_secret() -> str:
    """Return the client secret from its variable, else from the file in
    LABCARBON_OIDC_CLIENT_SECRET_FILE.
    """
    path = os.environ.get("LABCARBON_OIDC_CLIENT_SECRET_FILE", "")
    value = os.environ.get("LABCARBON_OIDC_CLIENT_SECRET", "")
    if value or not path:
        return value
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigurationError(
            f"LABCARBON_OIDC_CLIENT_SECRET_FILE={path} cannot be read ({error.strerror}). "
            "Write the client secret into that file and let the server's user read it."
        ) from error


def _read_secret(name: str, path: Path) -> str:
    """Return the secret in variable ``name``, else in file ``path``, else ''."""
    value = os.environ.get(name, "")
    if value or not _is_file(path):
        return value
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be read ({error.strerror}). Make the server's user the owner of the "
            f"data directory and its files, or set {name}."
        ) from error


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:  # a folder without access
        raise ConfigurationError(
            f"{path} cannot be read ({error.strerror}). Make the server's user the owner of the "
            "data directory and its files."
        ) from error


@dataclass(frozen=True)
class Oidc:
    """The lab's identity provider (OpenID Connect). All fields are empty without one."""

    issuer: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    name: str = ""

    @property
    def missing_variables(self) -> list[str]:
        """Required variables that are not set, although others are. Empty if all or none are
        set.
        """
        values = {
            "LABCARBON_OIDC_ISSUER": self.issuer,
            "LABCARBON_OIDC_CLIENT_ID": self.client_id,
            "LABCARBON_OIDC_CLIENT_SECRET": self.client_secret,
        }
        return (
            [name for name, value in values.items() if not value]
            if any((*values.values(), self.name))
            else []
        )

    @property
    def is_enabled(self) -> bool:
        return bool(self.issuer) and not self.missing_variables


@dataclass(frozen=True)
class Environment:
    """The settings of an installation."""

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
    asset_sources: list[str] = field(default_factory=list)
    grid_providers: dict[str, str] = field(default_factory=dict)
    grid_folder: str = ""
    keep_windows_days: int = 400
    attachments_mb: int = 1000
    wheels_dir: Path = WHEELS_DIR
    is_demo: bool = False
    problems: list[str] = field(default_factory=list)

    @property
    def is_served(self) -> bool:
        """Whether several machines share the work (PostgreSQL); False for an embedded installation
        (SQLite).
        """
        return bool(self.database_url) and not self.database_url.startswith("sqlite")

    @property
    def is_loopback_only(self) -> bool:
        return urlsplit(self.url).hostname in {"127.0.0.1", "localhost", "::1"}


def _read_peppers(data_dir: Path) -> dict[int, bytes]:
    """Parse ``1:hex,2:hex``. The highest number signs; all verify."""
    text = _read_secret("LABCARBON_TOKEN_PEPPERS", data_dir / "token_peppers")
    peppers: dict[int, bytes] = {}
    for part in filter(None, text.split(",")):
        number, _, value = part.partition(":")
        try:
            peppers[int(number)] = bytes.fromhex(value.strip())
        except ValueError as error:
            raise ConfigurationError(
                "LABCARBON_TOKEN_PEPPERS must have the form 1:0123abcd…,2:4567ef…: a number, a "
                "colon, "
                "at least 32 hexadecimal digits."
            ) from error
    return peppers


def _read_mail(data_dir: Path) -> Mail:
    """Return the mail server of LABCARBON_EMAIL_URL, else of the file ``email_url`` in the data
    directory.
    """
    url = _read_secret("LABCARBON_EMAIL_URL", data_dir / "email_url").strip()
    try:
        return parse_mail_url(url, os.environ.get("LABCARBON_EMAIL_FROM", "").strip())
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def read_environment() -> Environment:
    """Read all settings from the environment and the secrets from the data directory."""
    data_dir = Path(os.environ.get("LABCARBON_DATA", BASE_DIR / "var")).expanduser().resolve()
    try:
        port = int(os.environ.get("LABCARBON_PORT", "8000"))
    except ValueError as error:
        raise ConfigurationError("LABCARBON_PORT must be a port number such as 8000.") from error
    if not 0 < port < 65_536:
        raise ConfigurationError(
            f"LABCARBON_PORT must be a port number from 1 to 65535 such as 8000, not {port}."
        )
    url = os.environ.get("LABCARBON_SITE_URL", f"http://127.0.0.1:{port}").rstrip("/")
    return Environment(
        data_dir=data_dir,
        static_dir=Path(os.environ.get("LABCARBON_STATIC", data_dir / "static"))
        .expanduser()
        .resolve(),
        port=port,
        debug=_read_flag("LABCARBON_DEBUG"),
        url=url,
        secret_key=_read_secret("LABCARBON_SECRET_KEY", data_dir / "secret_key"),
        token_peppers=_read_peppers(data_dir),
        database_url=os.environ.get("LABCARBON_DATABASE_URL", ""),
        redis_url=os.environ.get("LABCARBON_REDIS_URL", ""),
        allowed_hosts=_read_list("LABCARBON_ALLOWED_HOSTS"),
        behind_proxy=_read_flag("LABCARBON_BEHIND_TLS_PROXY"),
        oidc=Oidc(
            issuer=os.environ.get("LABCARBON_OIDC_ISSUER", "").strip(),
            client_id=os.environ.get("LABCARBON_OIDC_CLIENT_ID", "").strip(),
            client_secret=_read_oidc_secret(),
            name=os.environ.get("LABCARBON_OIDC_NAME", "").strip(),
        ),
        mail=_read_mail(data_dir),
        data_packs=_read_data_packs(),
        tracker_hosts=_read_tracker_hosts(),
        asset_sources=_read_asset_sources(),
        grid_providers=_read_grid_providers(),
        grid_folder=os.environ.get("LABCARBON_GRID_FOLDER", "").strip(),
        keep_windows_days=_read_days("LABCARBON_KEEP_WINDOWS_DAYS", 400),
        attachments_mb=_read_megabytes("LABCARBON_ATTACHMENTS_MB", 1000),
        wheels_dir=Path(os.environ.get("LABCARBON_WHEELS") or WHEELS_DIR).expanduser().resolve(),
        is_demo=_read_flag("LABCARBON_DEMO"),
    )
