"""The committed OpenAPI schema is the one the code makes."""

from io import StringIO
from pathlib import Path

from django.core.management import call_command

COMMITTED = Path(__file__).parents[2] / "docs/api/openapi.yaml"


def test_the_committed_schema_is_up_to_date(tmp_path: Path) -> None:
    fresh = tmp_path / "openapi.yaml"
    call_command(
        "spectacular", "--validate", "--fail-on-warn", "--file", str(fresh), stdout=StringIO()
    )
    assert fresh.read_text(encoding="utf-8") == COMMITTED.read_text(encoding="utf-8"), (
        "The API changed. Write its schema again: make schema"
    )
