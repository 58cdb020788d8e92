"""Build the base image of the Dockerfile's FROM from Debian packages, without a registry."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from image_host import RELEASE, apt_sources

_ARCHIVE = f"debian-{RELEASE}-slim.tar"
# Excluded from a slim image, or different in each build.
_LEFT_OUT = (
    "./usr/share/doc/*", "./usr/share/man/*", "./usr/share/info/*", "./usr/share/locale/*",
    "./var/cache/apt/*.bin", "./var/cache/apt/archives/*.deb", "./var/lib/apt/lists/*",
    "./var/log/*", "./dev/*", "./proc/*", "./sys/*", "./tmp/*", "./etc/resolv.conf",
    "./etc/hostname",
)  # fmt: skip


def cache_dir() -> Path:
    """Return the cache folder: archive of the base and image store."""
    data_dir = Path(os.environ.get("LABCARBON_DATA", "var"))
    return Path(os.environ.get("LABCARBON_IMAGE_CACHE", data_dir / "cache" / "image")).absolute()


def base_archive(cache: Path) -> Path:
    """Return the root file system of the base as a tar file. debootstrap creates a missing one."""
    archive = cache / _ARCHIVE
    if not archive.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="debootstrap-") as folder:
            root = Path(folder) / "root"
            _debootstrap(root)
            _pack(root, archive)
    return archive


def _debootstrap(root: Path) -> None:
    """Install Debian's minimal base, then write sources with updates and security fixes."""
    sources = apt_sources()
    mirror = next(source.uri for source in sources if source.suite == RELEASE)
    log = root.parent / "debootstrap.out"
    with log.open("wb") as output:
        command = ["debootstrap", "--variant=minbase", RELEASE, str(root), mirror]
        ended = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False)
    if ended.returncode:
        raise SystemExit(f"debootstrap failed:\n{log.read_text(errors='replace')[-3000:]}")
    lines = [source.line() for source in sources]
    (root / "etc/apt/sources.list").write_text("\n".join(lines) + "\n", encoding="ascii")


def _pack(root: Path, archive: Path) -> None:
    partial = archive.with_suffix(".partial")
    leave_out = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
    form = ["--sort=name", "--numeric-owner", "--one-file-system"]
    subprocess.run(
        ["tar", *form, *leave_out, "-C", str(root), "-cf", str(partial), "."], check=True
    )
    partial.rename(archive)


def forget(cache: Path) -> None:
    """Delete our files in the cache. The next build uses today's packages."""
    (cache / _ARCHIVE).unlink(missing_ok=True)
    for store in cache.glob("store-*"):
        shutil.rmtree(store)
