"""The parts of the image script that read this machine and look into an image, on made-up input."""

from pathlib import Path
from typing import Any

import image_host
import pytest
from image_findings import findings
from image_host import Source, local_folders, parse_pip_config, parse_targets, pip_conf

CONFIG: dict[str, Any] = {"User": "10001:10001", "Env": ["PATH=/bin"], "History": ["RUN install"]}
TARGETS = """\
http://mirror.example/debian bookworm main
http://mirror.example/debian bookworm main
http://mirror.example/debian bookworm contrib
http://mirror.example/debian bookworm-updates main
http://mirror.example/security bookworm-security main
http://other.example/apt trixie main
http://vendor.example nodistro main
"""


def test_apt_targets_are_reduced_to_main_updates_and_security() -> None:
    assert parse_targets(TARGETS) == [
        Source("http://mirror.example/debian", "bookworm", "main"),
        Source("http://mirror.example/debian", "bookworm-updates", "main"),
        Source("http://mirror.example/security", "bookworm-security", "main"),
    ]


def test_a_missing_release_is_reported_with_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LABCARBON_DEBIAN_MIRROR", raising=False)
    monkeypatch.setattr(
        image_host, "_output", lambda command: "http://mirror.example/debian trixie main\n"
    )
    with pytest.raises(image_host.Missing, match="LABCARBON_DEBIAN_MIRROR=http"):
        image_host.apt_sources()


def test_a_given_mirror_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABCARBON_DEBIAN_MIRROR", "http://near.example/debian")
    assert [source.line() for source in image_host.apt_sources()] == [
        "deb http://near.example/debian bookworm main"
    ]


def test_pip_variables_override_its_files_and_unknown_keys_are_dropped() -> None:
    settings = parse_pip_config(
        ":env:.find-links='/from/environment'\n:env:.default-timeout='180'\n"
        "global.find-links='/from/file'\n"
        "global.extra-index-url='http://a.example/simple http://b.example/simple'\n"
        "install.no-binary='x'\nglobal.cert='/ca'\n"
    )
    assert settings == {
        "find-links": "/from/environment",
        "timeout": "180",
        "extra-index-url": "http://a.example/simple http://b.example/simple",
    }


def test_pip_conf_separates_several_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_host, "ca_bundle", lambda: Path("/ca.crt"))
    text = pip_conf({"extra-index-url": "http://a.example http://b.example"})
    assert (
        text == "[global]\nextra-index-url = http://a.example\n    http://b.example\ncert = "
        "/run/secrets/ca-bundle\n"
    )


def test_folders_of_pip_are_mounted(tmp_path: Path) -> None:
    index, wheels = tmp_path / "pypi" / "simple", tmp_path / "wheels"
    index.mkdir(parents=True)
    wheels.mkdir()
    settings = {
        "extra-index-url": f"file://{index} https://x.example/simple",
        "find-links": f"/nowhere {index}",
    }
    assert local_folders(settings) == [tmp_path / "pypi"]


@pytest.fixture
def image(tmp_path: Path) -> Path:
    for folder in ("usr/bin", "opt/labcarbon/bin", "srv/labcarbon", "srv/labcarbon-static"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "usr/bin/python3").touch()
    return tmp_path


def found(image: Path, config: dict[str, Any] = CONFIG, told: tuple[str, ...] = ()) -> list[str]:
    """Return what is wrong, leaving aside that an ordinary user's test files belong to that
    user.
    """
    return [line for line in findings(image, config, told) if "change its own program" not in line]


def test_a_good_image_has_no_findings(image: Path) -> None:
    assert found(image) == []


@pytest.mark.parametrize("path", ["usr/bin/gcc", "opt/labcarbon/bin/pip", "usr/bin/make"])
def test_a_build_tool_is_reported(image: Path, path: str) -> None:
    (image / path).touch()
    assert found(image) == [f"build tool in the image: /{path}"]


@pytest.mark.parametrize(
    "path", ["srv/labcarbon/.env", "opt/labcarbon/pip.conf", "usr/bin/secret_key"]
)
def test_a_secret_file_is_reported(image: Path, path: str) -> None:
    (image / path).touch()
    assert found(image) == [f"a secret's file in the image: /{path}"]


def test_a_world_writable_program_is_reported(image: Path) -> None:
    (image / "srv/labcarbon/manage.py").touch()
    (image / "srv/labcarbon/manage.py").chmod(0o666)
    assert "the server could change its own program: /srv/labcarbon/manage.py" in findings(
        image, CONFIG, ()
    )


@pytest.mark.parametrize("user", ["", "0", "root", "0:0"])
def test_the_root_user_is_reported(image: Path, user: str) -> None:
    assert found(image, {**CONFIG, "User": user}) == [f"the image starts as root (USER {user!r})"]


def test_a_secret_in_the_environment_is_reported(image: Path) -> None:
    assert found(image, {**CONFIG, "Env": ["LABCARBON_SECRET_KEY=x"]}) == [
        "the image's environment holds LABCARBON_SECRET_KEY"
    ]


def test_a_private_index_in_the_history_is_reported(image: Path) -> None:
    config = {**CONFIG, "History": ["RUN pip install --index-url http://index.example/simple"]}
    assert found(image, config, ("http://index.example/simple",)) == [
        "the image's history names http://index.example/simple of the build machine"
    ]
