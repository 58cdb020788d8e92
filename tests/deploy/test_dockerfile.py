"""The Dockerfile by its text: stages, user, and nothing private in a layer. What it builds is
tried by test_image.py.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
LINES = re.sub(
    r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
).splitlines()
INSTRUCTIONS = [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in LINES if line.strip()]


def stages() -> dict[str, list[tuple[str, str]]]:
    """Return {name of a stage, '' for the last: its instructions after FROM}."""
    found: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for word, rest in INSTRUCTIONS:
        if word == "FROM":
            name = rest.partition(" AS ")[2]
            found[name] = []
        else:
            found[name].append((word, rest))
    return found


def test_three_stages_and_only_the_base_installs_debian_packages() -> None:
    assert list(stages()) == ["base", "build", ""]
    assert [rest for word, rest in INSTRUCTIONS if word == "FROM"] == [
        "debian:bookworm-slim AS base",
        "base AS build",
        "base",
    ]


def test_nothing_runs_in_the_last_stage_and_it_copies_from_the_build_only() -> None:
    last = stages()[""]
    assert "RUN" not in [word for word, _ in last]
    assert all(rest.startswith("--from=build ") for word, rest in last if word == "COPY")


def test_it_runs_as_a_fixed_user_that_is_not_root() -> None:
    users = [rest for word, rest in stages()[""] if word == "USER"]
    assert users == ["10001:10001"]
    assert any("useradd --uid 10001 --gid 10001" in rest for _, rest in stages()["base"])


def test_python_packages_are_installed_by_hash_and_never_built() -> None:
    installs = [
        rest
        for word, rest in INSTRUCTIONS
        if word == "RUN" and "pip" in rest and " install " in rest and "-r " in rest
    ]
    assert len(installs) == 1
    assert "--require-hashes" in installs[0]
    assert "--only-binary :all:" in installs[0]


def test_of_the_collector_only_the_shared_module_and_the_wheels_stay() -> None:
    (collect,) = [rest for _, rest in stages()["build"] if "collect_wheels" in rest]
    assert "! -name __init__.py ! -name lc1 -exec rm -r" in collect
    assert "uninstall --quiet --yes setuptools" in collect
    assert "rm -r deploy requirements" in collect


@pytest.mark.parametrize("instruction", ["ARG", "ADD"])
def test_no_build_argument_or_remote_file_can_carry_something_in(instruction: str) -> None:
    assert instruction not in [word for word, _ in INSTRUCTIONS]


def test_no_secret_in_the_environment_or_written_out() -> None:
    for word, rest in INSTRUCTIONS:
        if word in {"ENV", "LABEL"}:
            assert not re.search(r"SECRET|PEPPER|PASSWORD|TOKEN|PIP_|proxy", rest, re.IGNORECASE), (
                rest
            )
        assert not re.search(r"(SECRET_KEY|PEPPERS)=(?!\$\(random\)|1:\$\(random\))", rest), rest


def test_no_host_name_is_written_down() -> None:
    text = " ".join(rest for _, rest in INSTRUCTIONS)
    assert not re.search(r"https?://|\w\.(com|org|net|io)\b", text)


def test_a_change_of_code_does_not_install_everything_again() -> None:
    build = [f"{word} {rest}" for word, rest in stages()["build"]]
    install = next(index for index, line in enumerate(build) if "--require-hashes" in line)
    code = next(index for index, line in enumerate(build) if line.startswith("COPY . "))
    assert install < code


def test_the_health_check_and_the_entry_point_exist() -> None:
    last = dict(stages()[""])
    for word in ("HEALTHCHECK", "ENTRYPOINT"):
        path = re.findall(r'"/srv/labcarbon/([^"]+)"', last[word])[0]
        assert (ROOT / path).stat().st_mode & 0o111, path


def test_the_context_is_a_list_of_what_belongs_to_the_program() -> None:
    lines = [
        line
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert lines[0] == "*"
    let_in = {line[1:] for line in lines if line.startswith("!")}
    help_documents = {"docs/*.md", "docs/adr", "docs/development", "docs/pictures"}
    nodes = {  # what nodes install; the build removes what the server does not import
        "collector",
        "deploy/labcarbon-collect.service",
        "deploy/labcarbon.sysusers.conf",
        "deploy/labcarbon.tmpfiles.conf",
        "requirements/collector.txt",
    }
    assert let_in == {
        "requirements.txt",
        "manage.py",
        "labcarbon",
        "apps",
        "templates",
        "static",
        "docker",
        *help_documents,
        *nodes,
    }
    assert all(any(ROOT.glob(name)) for name in let_in)


def test_every_document_of_the_help_is_in_the_context() -> None:
    folders = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert folders == {"docs", "docs/adr", "docs/development"}
