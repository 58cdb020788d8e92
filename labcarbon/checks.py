"""System checks: a mistake in the environment is told at start, with its mend."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from apps.catalog.packs import all_packs
from apps.core.management.base import CHECK_TAG

_NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "lustre", "beegfs", "gpfs"}


@register(CHECK_TAG)
def check_secrets(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """A secret key and a token pepper must be set: no default exists."""
    problems: list[CheckMessage] = []
    if len(settings.ENVIRONMENT.secret_key) < 40:
        problems.append(
            Error(
                "No secret key is set (or it is shorter than 40 characters).",
                hint="Run `make run`, which makes one in the data directory, or set LABCARBON_SECRET_KEY.",
                id="labcarbon.E001",
            )
        )
    if not settings.TOKEN_PEPPERS or any(len(value) < 16 for value in settings.TOKEN_PEPPERS.values()):
        problems.append(
            Error(
                "No token pepper is set (or it is shorter than 16 bytes).",
                hint="Run `make run`, which makes one in the data directory, or set LABCARBON_TOKEN_PEPPERS=1:<hex>.",
                id="labcarbon.E002",
            )
        )
    return problems


@register(CHECK_TAG)
def check_exposure(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """Off loopback: no debug pages, and only over TLS."""
    environment = settings.ENVIRONMENT
    if environment.loopback_only:
        return []
    problems: list[CheckMessage] = []
    if environment.debug:
        problems.append(
            Error(
                f"LABCARBON_DEBUG=1 would show source code to everyone who reaches {environment.url}.",
                hint="Unset LABCARBON_DEBUG, or set LABCARBON_SITE_URL to a loopback address.",
                id="labcarbon.E003",
            )
        )
    if not environment.url.startswith("https://"):
        problems.append(
            Error(
                f"{environment.url} would send tokens and sessions in the clear.",
                hint="Put a TLS proxy in front and set LABCARBON_SITE_URL=https://… and LABCARBON_BEHIND_TLS_PROXY=1.",
                id="labcarbon.E004",
            )
        )
    return problems


def file_system_of(path: str) -> str:
    """Return the type of the file system that holds ``path`` ('' where /proc/mounts cannot say)."""
    best, kind = "", ""
    try:
        with Path("/proc/mounts").open(encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                _, point, fs, *_ = line.split(" ")
                if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
                    best, kind = point, fs
    except OSError:
        return ""
    return kind


@register(CHECK_TAG)
def check_database_place(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """SQLite's locks do not hold on network file systems."""
    if settings.ENVIRONMENT.served:
        return []
    kind = file_system_of(str(settings.DATA_DIR))
    if kind not in _NETWORK_FILE_SYSTEMS:
        return []
    return [
        Error(
            f"The data directory {settings.DATA_DIR} is on a network file system ({kind}), where SQLite can lose data.",
            hint="Set LABCARBON_DATA to a local disk, or use PostgreSQL: LABCARBON_DATABASE_URL=postgres://…",
            id="labcarbon.E005",
        )
    ]


_LONGEST_ISSUER = 200  # what a link between a person and their identity holds


@register(CHECK_TAG)
def check_oidc(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """Sign-in by OpenID Connect is set whole or not at all, and never in the clear."""
    oidc = settings.ENVIRONMENT.oidc
    if oidc.missing:
        return [
            Error(
                f"Sign-in by OpenID Connect is half set: {' and '.join(oidc.missing)} missing.",
                hint="Set LABCARBON_OIDC_ISSUER, LABCARBON_OIDC_CLIENT_ID and LABCARBON_OIDC_CLIENT_SECRET (or "
                "LABCARBON_OIDC_CLIENT_SECRET_FILE), or unset every LABCARBON_OIDC_ variable.",
                id="labcarbon.E006",
            )
        ]
    return _wrong_issuer(oidc.issuer) if oidc.on else []


def _wrong_issuer(issuer: str) -> list[CheckMessage]:
    address = urlsplit(issuer)
    loopback = address.hostname in {"127.0.0.1", "localhost", "::1"}
    safe = bool(address.hostname) and (address.scheme == "https" or (address.scheme == "http" and loopback))
    odd = address.query or address.fragment or "/.well-known/" in issuer or len(issuer) > _LONGEST_ISSUER
    if safe and not odd:
        return []
    return [
        Error(
            f"LABCARBON_OIDC_ISSUER={issuer} cannot be used: it must be the provider's issuer, an https:// address of at "
            f"most {_LONGEST_ISSUER} characters (http:// on a loopback address only).",
            hint='Write it as the provider does in the field "issuer" of its /.well-known/openid-configuration, such as '
            "https://id.example.org/realms/lab, without that path.",
            id="labcarbon.E007",
        )
    ]


@register(CHECK_TAG)
def check_data_packs(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """A data pack is left out on purpose, never by a typing mistake."""
    unknown = sorted(set(settings.DATA_PACKS or ()) - set(all_packs()))
    if not unknown:
        return []
    return [
        Error(
            f"LABCARBON_DATA_PACKS names {', '.join(unknown)}, which is no data pack.",
            hint=f"Use all, none, or some of {','.join(all_packs())}.",
            id="labcarbon.E008",
        )
    ]
