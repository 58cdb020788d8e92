"""The server imports one pure package of the collector, and nothing else."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
LC1 = ROOT / "collector" / "labcarbon_collect" / "lc1"


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def test_the_server_imports_nothing_of_the_collector_but_lc1() -> None:
    found = {
        (path.relative_to(ROOT).as_posix(), name)
        for top in ("apps", "labcarbon")
        for path in (ROOT / top).rglob("*.py")
        for name in _imports(path)
        if name.split(".")[0] == "labcarbon_collect"
    }
    assert all(name.startswith("labcarbon_collect.lc1") for _, name in found), found
    assert {path for path, _ in found} <= {
        "apps/runs/services/fingerprints.py",
        "apps/artifacts/storage_model.py",
        "apps/ingest/choices.py",
        "apps/ingest/window_rules.py",
    }


def test_lc1_reads_and_writes_nothing() -> None:
    allowed = {
        "__future__",
        "ast",
        "dataclasses",
        "hashlib",
        "math",
        "re",
        "typing",
        "unicodedata",
        "rfc8785",
    }
    paths = sorted(LC1.glob("*.py"))
    assert paths
    for path in paths:
        outside = {name for name in _imports(path) if not name.startswith("labcarbon_collect.lc1")}
        assert outside <= allowed, (path.name, outside - allowed)
