"""Check of the files and the history of an image for forbidden content."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

BUILD_TOOLS = frozenset({
    "as", "c++", "cc", "clang", "cmake", "g++", "gcc", "git", "ld", "make", "pip", "pip3", "uv",
    "curl", "wget",
})  # fmt: skip
SECRET_FILES = frozenset({
    "secret_key", "token_peppers", ".env", "pip.conf", "99build", "ca-bundle", "labcarbon.sqlite3",
    ".netrc", "id_rsa", "id_ed25519", "node-token",
})  # fmt: skip
_PROGRAM_FOLDERS = ("bin", "sbin", "usr/bin", "usr/sbin", "usr/local/bin", "opt/labcarbon/bin")
_OURS = ("srv/labcarbon", "srv/labcarbon-static", "opt/labcarbon")


def findings(root: Path, config: dict[str, Any], secrets_: Sequence[str]) -> list[str]:
    """Return all problems of an image.

    ``secrets_``: private values of the build machine (package indexes, proxies).
    """
    return [
        *_tools(root),
        *_secret_files(root),
        *_writable(root),
        *_configuration(config),
        *_leaked(config, secrets_),
    ]


def _tools(root: Path) -> Iterator[str]:
    for folder in _PROGRAM_FOLDERS:
        names = (
            [path.name for path in (root / folder).iterdir()] if (root / folder).is_dir() else []
        )
        yield from (
            f"build tool in the image: /{folder}/{name}"
            for name in sorted(BUILD_TOOLS.intersection(names))
        )
    if list(root.glob("opt/labcarbon/lib/python3*/site-packages/pip")):
        yield "build tool in the image: the pip package"


def _secret_files(root: Path) -> Iterator[str]:
    for folder, _, files in os.walk(root):
        place = Path(folder).relative_to(root)
        yield from (
            f"a secret's file in the image: /{place}/{name}"
            for name in sorted(SECRET_FILES.intersection(files))
        )


def _writable(root: Path) -> Iterator[str]:
    """Yield program files that the server's user can write. It may write only its data."""
    for top in _OURS:
        for folder, _, files in os.walk(root / top):
            for path in [Path(folder), *(Path(folder) / name for name in files)]:
                status = path.lstat()
                if not stat.S_ISLNK(status.st_mode) and (
                    status.st_uid != 0 or status.st_mode & stat.S_IWOTH
                ):
                    yield f"the server could change its own program: /{path.relative_to(root)}"


def _configuration(config: dict[str, Any]) -> Iterator[str]:
    user = str(config.get("User", ""))
    if user.partition(":")[0] in {"", "0", "root"}:
        yield f"the image starts as root (USER {user!r})"
    for variable in config.get("Env") or []:
        name = variable.partition("=")[0]
        if any(
            word in name
            for word in ("SECRET", "PEPPER", "PASSWORD", "TOKEN", "PIP_", "PROXY", "proxy")
        ):
            yield f"the image's environment holds {name}"


def _leaked(config: dict[str, Any], secrets_: Sequence[str]) -> Iterator[str]:
    text = "\n".join([*config.get("Env", []), *config.get("History", [])])
    yield from (
        f"the image's history names {word} of the build machine"
        for word in secrets_
        if word in text
    )
