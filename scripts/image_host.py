"""Settings of apt, pip and the certificate store on this machine, for an image build.

The build gets them as secrets and read-only mounts. They are not written into the project or a
layer.
"""

import ast
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

RELEASE = "bookworm"
CA_IN_BUILD = "/run/secrets/ca-bundle"
_PIP_KEYS = {
    "index-url", "extra-index-url", "find-links", "no-index", "trusted-host", "proxy", "retries",
    "timeout",
}  # fmt: skip
_PIP_ALIASES = {"default-timeout": "timeout"}
_PIP_PLACES = ("index-url", "extra-index-url", "find-links")
_APT_KEYS = ("Acquire::http::", "Acquire::https::", "Acquire::Retries")
_CA_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"


class Missing(Exception):
    """A setting is missing on this machine. The message names the variable that sets it."""


@dataclass(frozen=True)
class Source:
    """One line of apt's sources."""

    uri: str
    suite: str
    component: str

    def line(self) -> str:
        return f"deb {self.uri} {self.suite} {self.component}"


def ca_bundle() -> Path | None:
    """Return the file of trusted certificate authorities of this machine, or None."""
    for name in (os.environ.get("SSL_CERT_FILE", ""), _CA_BUNDLE):
        if name and Path(name).is_file():
            return Path(name).resolve()
    return None


def apt_sources() -> list[Source]:
    """Return the Debian sources of our release.

    Raises Missing if neither the variable nor apt has one.
    """
    named = os.environ.get("LABCARBON_DEBIAN_MIRROR", "")
    if named:
        return [Source(named, RELEASE, "main")]
    sources = parse_targets(
        _output(["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE) $(COMPONENT)"])
    )
    if not any(source.suite == RELEASE for source in sources):
        raise Missing(
            f"apt on this machine names no mirror of Debian {RELEASE}. Name one: "
            "LABCARBON_DEBIAN_MIRROR=http://… scripts/build_image.sh"
        )
    return sources


def parse_targets(text: str) -> list[Source]:
    """Parse lines of ``SITE RELEASE COMPONENT``.

    Return main of our release, its updates and security, each once.
    """
    suites = {RELEASE, f"{RELEASE}-updates", f"{RELEASE}-security"}
    sources = (Source(*words) for words in map(str.split, text.splitlines()) if len(words) == 3)
    return list(
        dict.fromkeys(
            source for source in sources if source.suite in suites and source.component == "main"
        )
    )


def apt_conf() -> str:
    """Return apt's settings for the build: proxies and time limits of this machine, and its
    certificates.
    """
    dump = _output(["apt-config", "dump", "--no-empty"])
    lines = [
        line for line in dump.splitlines() if line.startswith(_APT_KEYS) and "::CAInfo" not in line
    ]
    if ca_bundle():
        lines.append(f'Acquire::https::CAInfo "{CA_IN_BUILD}";')
    return "\n".join(lines) + "\n"


def pip_settings() -> dict[str, str]:
    """Return pip's settings of indexes, folders and proxies (environment before files)."""
    for pip in ([sys.executable, "-m", "pip"], ["pip3"], ["pip"]):
        if (
            shutil.which(pip[0])
            and subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode
            == 0
        ):
            return parse_pip_config(_output([*pip, "config", "list"]))
    print("pip is not on this machine: the build uses pip's defaults.")
    return {}


def parse_pip_config(text: str) -> dict[str, str]:
    """Parse ``pip config list``: lines such as ``global.index-url='…'`` and
    ``:env:.find-links='…'``.
    """
    ranked: list[tuple[int, str, str]] = []
    for line in text.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        key = _PIP_ALIASES.get(key, key)
        rank = {"global": 0, "install": 1, ":env:": 2}.get(section)
        if rank is not None and key in _PIP_KEYS:
            ranked.append((rank, key, str(ast.literal_eval(value))))
    return {key: value for _, key, value in sorted(ranked, key=lambda item: item[0])}


def pip_conf(settings: dict[str, str]) -> str:
    """Return a pip.conf with these settings, with one line per value of a key."""
    lines = ["[global]"]
    for key, value in sorted(settings.items()):
        words = value.split() if key in {*_PIP_PLACES, "trusted-host"} else [value]
        lines.append(f"{key} = " + "\n    ".join(words))
    if ca_bundle():
        lines.append(f"cert = {CA_IN_BUILD}")
    return "\n".join(lines) + "\n"


def local_folders(settings: dict[str, str]) -> list[Path]:
    """Return the existing local folders in pip's settings. The build needs them too."""
    folders = []
    for word in " ".join(settings.get(key, "") for key in _PIP_PLACES).split():
        path = Path(unquote(urlsplit(word).path)) if word.startswith("file:") else Path(word)
        if path.is_absolute() and path.is_dir():
            folders.append(path)
    return _roots(folders)


def _roots(folders: list[Path]) -> list[Path]:
    """Return the folders to mount: the parent of each folder, because an index links to files
    beside it.

    A folder at most two levels below / is mounted itself.
    """
    parents = {folder if len(folder.parts) <= 3 else folder.parent for folder in folders}
    return sorted(path for path in parents if not any(other in path.parents for other in parents))


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError as error:
        raise Missing(
            f"There is no {command[0]} on this machine, which says where Debian's packages are."
        ) from error
    except subprocess.CalledProcessError as error:
        raise Missing(f"`{' '.join(command)}` failed: {error.stderr.strip()}") from error
