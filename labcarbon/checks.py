"""System checks that report configuration errors at start, with a fix."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from apps.catalog.packs import all_packs
from apps.core.management.base import CHECK_TAG
from labcarbon.demo.marks import DATABASE, is_demo_folder, is_foreign_database

_NETWORK_FILE_SYSTEMS = {
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "fuse.sshfs",
    "afs",
    "lustre",
    "beegfs",
    "gpfs",
}


@register(CHECK_TAG)
def check_secrets(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """Check that a secret key and a token pepper are set. There is no default."""
    problems: list[CheckMessage] = []
    if len(settings.ENVIRONMENT.secret_key) < 40:
        problems.append(
            Error(
                "No secret key is set (or it is shorter than 40 characters).",
                hint=(
                    "Run `make run`, which creates one in the data directory, or set "
                    "LABCARBON_SECRET_KEY."
                ),
                id="labcarbon.E001",
            )
        )
    if not settings.TOKEN_PEPPERS or any(
        len(value) < 16 for value in settings.TOKEN_PEPPERS.values()
    ):
        problems.append(
            Error(
                "No token pepper is set (or it is shorter than 16 bytes).",
                hint=(
                    "Run `make run`, which creates one in the data directory, or set "
                    "LABCARBON_TOKEN_PEPPERS=1:<hex>."
                ),
                id="labcarbon.E002",
            )
        )
    return problems


@register(CHECK_TAG)
def check_exposure(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """Check that a server reachable from other machines has TLS and no debug pages."""
    environment = settings.ENVIRONMENT
    if environment.is_loopback_only:
        return []
    problems: list[CheckMessage] = []
    if environment.debug:
        problems.append(
            Error(
                f"LABCARBON_DEBUG=1 shows source code to everyone who can reach {environment.url}.",
                hint="Unset LABCARBON_DEBUG, or set LABCARBON_SITE_URL to a loopback address.",
                id="labcarbon.E003",
            )
        )
    if not environment.url.startswith("https://"):
        problems.append(
            Error(
                f"{environment.url} sends tokens and sessions unencrypted.",
                hint=(
                    "Put a TLS proxy in front and set LABCARBON_SITE_URL=https://… and "
                    "LABCARBON_BEHIND_TLS_PROXY=1."
                ),
                id="labcarbon.E004",
            )
        )
    return problems


def file_system_type(path: str) -> str:
    """Return the type of the file system that contains ``path``, "" if /proc/mounts does not
    say.
    """
    longest, file_system = "", ""
    try:
        with Path("/proc/mounts").open(encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                _, point, type_, *_ = line.split(" ")
                if (path == point or path.startswith(point.rstrip("/") + "/")) and len(
                    point
                ) >= len(longest):
                    longest, file_system = point, type_
    except OSError:
        return ""
    return file_system


@register(CHECK_TAG)
def check_database_location(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """Check that the SQLite database is not on a network file system, where locks are
    unreliable.
    """
    if settings.ENVIRONMENT.is_served:
        return []
    kind = file_system_type(str(settings.DATA_DIR))
    if kind not in _NETWORK_FILE_SYSTEMS:
        return []
    return [
        Error(
            (
                f"The data directory {settings.DATA_DIR} is on a network file system ({kind}), "
                "where SQLite can lose data."
            ),
            hint=(
                "Set LABCARBON_DATA to a local disk, or use PostgreSQL: "
                "LABCARBON_DATABASE_URL=postgres://…"
            ),
            id="labcarbon.E005",
        )
    ]


_MAX_ISSUER_CHARS = 200  # maximum length of the stored issuer of an identity


@register(CHECK_TAG)
def check_oidc(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """Check that the OpenID Connect settings are complete and use TLS."""
    oidc = settings.ENVIRONMENT.oidc
    if oidc.missing_variables:
        return [
            Error(
                (
                    "The OpenID Connect settings are incomplete: "
                    f"{' and '.join(oidc.missing_variables)} missing."
                ),
                hint="Set LABCARBON_OIDC_ISSUER, LABCARBON_OIDC_CLIENT_ID and "
                "LABCARBON_OIDC_CLIENT_SECRET (or "
                "LABCARBON_OIDC_CLIENT_SECRET_FILE), or unset every LABCARBON_OIDC_ variable.",
                id="labcarbon.E006",
            )
        ]
    return _check_issuer(oidc.issuer) if oidc.is_enabled else []


def _check_issuer(issuer: str) -> list[CheckMessage]:
    address = urlsplit(issuer)
    is_loopback = address.hostname in {"127.0.0.1", "localhost", "::1"}
    is_safe = bool(address.hostname) and (
        address.scheme == "https" or (address.scheme == "http" and is_loopback)
    )
    is_malformed = (
        address.query
        or address.fragment
        or "/.well-known/" in issuer
        or len(issuer) > _MAX_ISSUER_CHARS
    )
    if is_safe and not is_malformed:
        return []
    return [
        Error(
            f"LABCARBON_OIDC_ISSUER={issuer} cannot be used: it must be the provider's issuer, an "
            "https:// address of at "
            f"most {_MAX_ISSUER_CHARS} characters (http:// on a loopback address only).",
            hint="Use the value of 'issuer' in the provider's /.well-known/openid-configuration, "
            "such as "
            "https://id.example.org/realms/lab, without that path.",
            id="labcarbon.E007",
        )
    ]


@register(CHECK_TAG)
def check_data_packs(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """Check that LABCARBON_DATA_PACKS contains only known data packs."""
    unknown = sorted(set(settings.DATA_PACKS or ()) - set(all_packs()))
    if not unknown:
        return []
    return [
        Error(
            f"LABCARBON_DATA_PACKS contains {', '.join(unknown)}, which is not a data pack.",
            hint=f"Use all, none, or some of {','.join(all_packs())}.",
            id="labcarbon.E008",
        )
    ]


@register(CHECK_TAG)
def check_demo(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """Check that made-up data is used by a demo only, and that a demo uses nothing else."""
    folder, problem = settings.DATA_DIR, ""
    if not settings.DEMO:
        if is_demo_folder(folder):
            problem = f"The data in {folder} is made up: it belongs to a demo."
    elif settings.ENVIRONMENT.is_served or settings.ENVIRONMENT.redis_url:
        problem = "A demo has a database of its own and cannot use a configured one."
    elif is_foreign_database(folder / DATABASE) or not is_demo_folder(folder):
        problem = f"The data directory {folder} does not belong to a demo."
    if not problem:
        return []
    hint = (
        "Start a demo with `make demo`. For a lab of your own, use `make run` with another data "
        "directory and without LABCARBON_DEMO."
    )
    return [Error(problem, hint=hint, id="labcarbon.E009")]
