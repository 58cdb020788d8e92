"""The two programs that can build and start the image: Debian's buildah (as root, no daemon) and
Docker.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from image_base import base_archive

BASE = "docker.io/library/debian:bookworm-slim"  # what FROM debian:bookworm-slim stands for
DATA = "/var/lib/labcarbon"


class Engine(Protocol):
    """Builds an image, shows its files and configuration, starts one container of it."""

    def build(self, tag: str, secrets: Mapping[str, Path], folders: list[Path]) -> None: ...

    def config(self, tag: str) -> dict[str, Any]:
        """Return Docker's image configuration and, as ``History``, what made each layer."""
        ...

    def files(self, tag: str) -> Any:
        """Return a context manager that gives the folder with the image's files."""
        ...

    def command(
        self, tag: str, data: Path, environ: Mapping[str, str], program: list[str]
    ) -> list[str]:
        """Return the command that runs a program of the image on the host's network with its
        data in ``data``.
        """
        ...

    def close(self) -> None: ...


def _run(command: list[str]) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(
            f"`{' '.join(command[:12])} …` failed ({ended.returncode}):\n"
            f"{(ended.stdout + ended.stderr)[-6000:]}"
        )
    return ended.stdout.strip()


def storage_driver(cache: Path) -> str:
    """Return overlay where the kernel can stack folders of this disk, else vfs, which copies
    every layer in full.
    """
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="overlay-") as folder:
        lower, upper, work, merged = (
            Path(folder) / name for name in ("lower", "upper", "work", "merged")
        )
        for path in (lower, upper, work, merged):
            path.mkdir()
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        mount = ["mount", "-t", "overlay", "-o", options, "overlay", str(merged)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            print(
                "This disk cannot be stacked (overlay), so every layer is copied in full: minutes "
                "instead of seconds."
            )
            return "vfs"
        subprocess.run(["umount", str(merged)], check=True)
    return "overlay"


class Buildah:
    """Root's buildah with a store of its own: containers are chroots, so that neither runc nor a
    daemon is needed.
    """

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        driver = storage_driver(cache)
        self._scratch = tempfile.TemporaryDirectory(prefix="labcarbon-buildah-")
        self._buildah = [
            "buildah",
            "--storage-driver",
            driver,
            "--root",
            str(cache / f"store-{driver}"),
            "--runroot",
            self._scratch.name,
        ]
        self._container = ""

    def build(self, tag: str, secrets: Mapping[str, Path], folders: list[Path]) -> None:
        """Build in two steps: only the throw-away stage sees this machine's folders, whose names
        would stay as empty folders in a layer.
        """
        self._import_base()
        build = [
            *self._buildah,
            "bud",
            "--quiet",
            "--isolation",
            "chroot",
            "--network",
            "host",
            "--layers",
            "--pull-never",
            "--format",
            "docker",
            "--timestamp",
            "0",
        ]
        for name, path in secrets.items():
            build += ["--secret", f"id={name},src={path}"]
        mounts = [word for folder in folders for word in ("--volume", f"{folder}:{folder}:ro")]
        _run([*build, "--target", "base", "--tag", f"{tag}-base", "."])
        _run([*build, *mounts, "--tag", tag, "."])

    def _import_base(self) -> None:
        if BASE in _run([*self._buildah, "images", "--format", "{{.Name}}:{{.Tag}}"]).splitlines():
            return
        container = _run([*self._buildah, "from", "scratch"])
        _run([*self._buildah, "add", "--quiet", container, str(base_archive(self._cache)), "/"])
        _run([*self._buildah, "config", "--cmd", "bash", container])
        _run([*self._buildah, "commit", "--quiet", "--rm", container, BASE])

    def config(self, tag: str) -> dict[str, Any]:
        config = json.loads(_run([*self._buildah, "inspect", "--type", "image", tag]))
        return {
            **config["Docker"]["config"],
            "History": [str(layer) for layer in config["Docker"]["history"]],
        }

    @contextmanager
    def files(self, tag: str) -> Iterator[Path]:
        container = _run([*self._buildah, "from", "--pull-never", tag])
        try:
            yield Path(_run([*self._buildah, "mount", container]))
        finally:
            _run([*self._buildah, "rm", container])

    def command(
        self, tag: str, data: Path, environ: Mapping[str, str], program: list[str]
    ) -> list[str]:
        # One container serves every program: with vfs each is a full copy of the files.
        self._container = self._container or _run([*self._buildah, "from", "--pull-never", tag])
        variables = [
            word for name, value in environ.items() for word in ("--env", f"{name}={value}")
        ]
        return [
            *self._buildah,
            "run",
            "--isolation",
            "chroot",
            "--network",
            "host",
            "--volume",
            f"{data}:{DATA}",
            *variables,
            self._container,
            *program,
        ]

    def close(self) -> None:
        if self._container:
            _run([*self._buildah, "rm", self._container])
        self._scratch.cleanup()


class Docker:
    """An engine that answers `docker info`."""

    def build(self, tag: str, secrets: Mapping[str, Path], folders: list[Path]) -> None:
        if folders:
            print(
                f"Docker's builder cannot mount {', '.join(map(str, folders))}: pip looks "
                "elsewhere."
            )
        given = [
            word for name, path in secrets.items() for word in ("--secret", f"id={name},src={path}")
        ]
        os.environ["DOCKER_BUILDKIT"] = "1"
        _run(["docker", "build", "--network", "host", *given, "--tag", tag, "."])

    def config(self, tag: str) -> dict[str, Any]:
        config = json.loads(_run(["docker", "image", "inspect", tag]))[0]["Config"]
        history = _run(["docker", "history", "--no-trunc", "--format", "{{.CreatedBy}}", tag])
        return {**config, "History": history.splitlines()}

    @contextmanager
    def files(self, tag: str) -> Iterator[Path]:
        container = _run(["docker", "create", tag])
        try:
            with tempfile.TemporaryDirectory(prefix="labcarbon-image-") as folder:
                _run(
                    ["sh", "-c", f"docker export {container} | tar -x -C {folder} --no-same-owner"]
                )
                yield Path(folder)
        finally:
            _run(["docker", "rm", container])

    def command(
        self, tag: str, data: Path, environ: Mapping[str, str], program: list[str]
    ) -> list[str]:
        given = [word for name, value in environ.items() for word in ("--env", f"{name}={value}")]
        given += ["--entrypoint", program[0], "--volume", f"{data}:{DATA}"]
        return ["docker", "run", "--rm", "--network", "host", *given, tag, *program[1:]]

    def close(self) -> None:
        """Nothing is left: containers are started with --rm."""
