"""The image is really built, looked into and started by scripts/build_image.sh: minutes from
nothing, so in CI only.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "scripts" / "build_image.sh"
IN_CI = os.environ.get("CI", "").lower() in {"1", "true"}
NOBODY = 65534


def _why_not() -> str:
    if not IN_CI:
        return "the image is built in CI (CI=true), or now: make image"
    if os.geteuid() != 0:
        return "only root can build the image without a Docker engine"
    missing = [tool for tool in ("buildah", "debootstrap") if shutil.which(tool) is None]
    return f"not installed: apt-get install {' '.join(missing)}" if missing else ""


@pytest.mark.skipif(bool(_why_not()), reason=f"left out: {_why_not()}")
@pytest.mark.timeout(2400)  # without overlay the vfs driver copies every layer
def test_the_image_is_built_holds_nothing_it_should_not_and_serves() -> None:
    cache = os.environ.get("LABCARBON_IMAGE_CACHE", str(ROOT / "var" / "cache" / "image"))
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith("LABCARBON_")
    }
    ended = subprocess.run(
        [str(SCRIPT), "--tag", "localhost/labcarbon:test"],
        env={**environ, "LABCARBON_IMAGE_CACHE": cache},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-6000:]
    assert "no build tools, no secrets" in ended.stdout
    assert "'/readyz': 200" in ended.stdout
    assert ended.stdout.splitlines()[-1].startswith(
        "The image localhost/labcarbon:test is built and works"
    )


def test_missing_root_permission_is_reported() -> None:
    become = ["setpriv", f"--reuid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
    ended = subprocess.run(
        [*become, "sh", "-s"],
        input=SCRIPT.read_text().replace('cd "$(dirname "$0")/.."', "cd /"),
        env={"PATH": os.environ["PATH"], "LABCARBON_IMAGE_ENGINE": "buildah"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 77
    assert "needs root" in ended.stderr
    assert "sudo scripts/build_image.sh" in ended.stderr


def test_without_the_tools_it_names_the_packages(tmp_path: Path) -> None:
    for name in ("dirname", "sh"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    (tmp_path / "id").write_text("#!/bin/sh\necho 0\n")
    (tmp_path / "id").chmod(0o755)
    ended = subprocess.run(
        [str(SCRIPT)], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 77
    assert "apt-get install buildah debootstrap" in ended.stderr
