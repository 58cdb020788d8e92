"""The install script: the same bytes for everybody, built from settings and from the files that it
downloads.
"""

import hashlib
import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings

from apps.core.errors import LabCarbonError
from apps.fleet.install.wheels import InstallFile, WheelsMissing, read_manifest

TEMPLATE = Path(__file__).with_name("install.sh")
COLLECT = "manage.py collect_wheels"
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class NotInstallable(LabCarbonError):
    """The install address cannot serve the collector."""

    status = 503
    code = "not_installable"


@dataclass(frozen=True)
class InstallScript:
    """The script with its digest."""

    text: str
    url: str

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def install_files() -> list[InstallFile]:
    """Return the files that nodes download. Raises NotInstallable."""
    try:
        return read_manifest(settings.WHEELS_DIR)
    except WheelsMissing as error:
        raise NotInstallable(
            str(error), hint=f"An administrator of the server runs `{COLLECT}` there."
        ) from error


def require_safe_url() -> None:
    """Raise NotInstallable for a configured address without TLS outside this machine."""
    parts = urlsplit(settings.SITE_URL)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise NotInstallable(
            "The address of this server has no TLS, so nodes would install what anybody on the "
            "network sends.",
            hint="Set LABCARBON_SITE_URL to an address that begins with https://.",
        )


def install_script() -> InstallScript:
    """Return the script. Raises NotInstallable."""
    require_safe_url()
    files = install_files()
    wheels = [file for file in files if file.requirement]
    pip = next(file.name for file in wheels if file.project == "pip")
    values = {
        "URL": shlex.quote(settings.SITE_URL),
        "PIP": shlex.quote(pip),
        "FILES": "\n".join(f"{file.sha256} {file.size} {file.name}" for file in files),
        "REQUIREMENTS": "\n".join(
            f"{file.requirement} --hash=sha256:{file.sha256}"
            for file in wheels
            if file.project != "pip"
        ),
    }
    text = TEMPLATE.read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return InstallScript(text, settings.SITE_URL)


def install_problem() -> str:
    """Return why the install address serves nothing, with the fix, or ''."""
    try:
        install_script()
    except NotInstallable as error:
        return f"{error.message} {error.hint}"
    return ""
