"""docs/install.md explains every variable that the server reads, and none that nothing reads."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
DOCUMENTED = set(re.findall(r"(?m)^\| `(LABCARBON_[A-Z_]+)` \|", DOCS))
SHELL = (ROOT / "docker" / "entrypoint.sh", ROOT / "scripts" / "build_image.sh")
PYTHON = (ROOT / "labcarbon" / "env.py", *sorted((ROOT / "scripts").glob("image*.py")))
NAME = re.compile(r"LABCARBON_[A-Z_]+")


def read_by_python(path: Path) -> set[str]:
    """Return every string in the code that is the name of a variable."""
    constants = (
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
    )
    return {value for value in constants if isinstance(value, str) and NAME.fullmatch(value)}


def read_by_shell(path: Path) -> set[str]:
    return set(re.findall(r"\$\{(LABCARBON_[A-Z_]+)", path.read_text(encoding="utf-8")))


def test_the_server_reads_at_least_what_we_know_of() -> None:
    assert {"LABCARBON_DATA", "LABCARBON_SITE_URL", "LABCARBON_DEBUG"} <= read_by_python(PYTHON[0])


def test_every_variable_is_documented() -> None:
    read = set().union(*map(read_by_python, PYTHON), *map(read_by_shell, SHELL))
    assert sorted(read - DOCUMENTED) == []


def test_no_variable_is_documented_that_nothing_reads() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (*PYTHON, *SHELL))
    assert sorted(name for name in DOCUMENTED if name not in text) == []


def test_every_file_it_links_to_exists() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", DOCS):
        assert (ROOT / "docs" / target).exists(), target


def test_every_role_is_named() -> None:
    roles = re.findall(r"(?m)^  ([a-z]+)\)$", SHELL[0].read_text(encoding="utf-8"))
    assert roles == ["web", "worker", "celery", "beat", "migrate", "manage"]
    assert all(f"`{role}" in DOCS for role in roles)
