"""Import of CodeCarbon's emissions.csv. Each row is a complete run, or its running total."""

import csv
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db import transaction

from apps.accounts.models import Lab, Project
from apps.core.clock import utc
from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable
from apps.core.units import PPM
from apps.fleet.models import Node, Site
from apps.runs.models import ExternalId
from apps.trackers.codecarbon.choices import Channel
from apps.trackers.codecarbon.models import CodeCarbonPost, CodeCarbonRun
from apps.trackers.codecarbon.parsing import Reading, parse_reading
from apps.trackers.codecarbon.services.process import TOOL, process_run
from apps.trackers.codecarbon.services.receive import save_message
from apps.trackers.codecarbon.services.tokens import source_for_files

REQUIRED = ("timestamp", "run_id", "duration", "cpu_energy", "ram_energy")
MAX_ROWS = 100_000


@dataclass(frozen=True)
class FileRow:
    """A valid row. ``content``: as stored, with a time zone."""

    line: int
    run_id: str
    reading: Reading
    content: dict[str, Any]

    @property
    def body(self) -> bytes:
        return json.dumps(self.content, sort_keys=True).encode()


class FileErrors(InvalidInput):
    """Invalid rows. ``errors``: one per row. Nothing was written."""

    code = "bad_rows"

    def __init__(self, errors: list[InvalidInput]) -> None:
        super().__init__(
            f"Nothing was imported: {len(errors)} rows have errors.",
            hint="Correct or remove them and try again.",
        )
        self.errors = errors


def read_file(lines: Iterable[str], *, zone: ZoneInfo, client_pue_ppm: int = PPM) -> list[FileRow]:
    """Parse a file of CodeCarbon. Its times have no time zone and are read in ``zone``.

    ``client_pue_ppm``: for files without a column ``pue``. Raises InvalidInput for the file,
    FileErrors for its rows.
    """
    reader = csv.DictReader(lines)
    missing = [name for name in REQUIRED if name not in (reader.fieldnames or ())]
    if missing:
        raise InvalidInput(
            f"The column {missing[0]!r} is missing.",
            field=missing[0],
            hint="Use the emissions.csv that CodeCarbon writes.",
        )
    rows: list[FileRow] = []
    errors: list[InvalidInput] = []
    for row in reader:
        if len(rows) + len(errors) >= MAX_ROWS:
            raise InvalidInput(f"More than {MAX_ROWS} rows.", hint="Split the file.")
        try:
            rows.append(_read(row, reader.line_num, zone, client_pue_ppm))
        except InvalidInput as error:
            error.message = f"line {reader.line_num}: {error.message}"
            errors.append(error)
    if errors:
        raise FileErrors(errors)
    return sorted(rows, key=lambda row: (row.run_id, row.reading.duration_us))


def _read(row: dict[str, str], line: int, zone: ZoneInfo, client_pue_ppm: int) -> FileRow:
    content: dict[str, Any] = {
        name: value for name, value in row.items() if name and value not in (None, "")
    }
    if any(is_unstorable(f"{name}{value}") for name, value in content.items()):
        raise InvalidInput("Invalid character. Remove it and try again.")
    try:
        run_id = str(UUID(content.get("run_id", "")))
    except ValueError as error:
        raise InvalidInput(
            f"run_id {content.get('run_id', '')[:40]!r} is no UUID of a run.",
            field="run_id",
            hint=(
                "CodeCarbon writes 'None' if it also sends the run to an API. Import it from "
                "there, or remove the row."
            ),
        ) from error
    content.setdefault("pue", str(client_pue_ppm / PPM))
    reading = parse_reading(content, client_pue_ppm=client_pue_ppm, zone=zone)
    assert reading.at_us is not None
    content.update(run_id=run_id, timestamp=utc(reading.at_us).isoformat())
    return FileRow(line, run_id, reading, content)


@transaction.atomic
def import_file(
    *,
    lab: Lab,
    rows: list[FileRow],
    project: Project,
    node: Node | None,
    site: Site | None,
    now: int,
) -> dict[str, int]:
    """Store the rows of a file as runs of a project. Idempotent.

    Return the numbers of imported, existing and rejected rows.
    ``node`` wrote the file. Its collector takes precedence. None: an unknown node at ``site``.
    """
    source = source_for_files(lab=lab, project=project, node=node, site=site, now=now)
    own_uuids = set(CodeCarbonRun.objects.filter(source=source).values_list("uuid", flat=True))
    known_ids = set(ExternalId.objects.filter(lab=lab, tool=TOOL).values_list("value", flat=True))
    results = {"imported": 0, "there before": 0, "not counted": 0}
    for row in rows:
        if row.run_id in known_ids and UUID(row.run_id) not in own_uuids:
            results["there before"] += 1  # imported through another token or file
            continue
        duplicates = CodeCarbonPost.objects.filter(
            tracked_run__source=source,
            tracked_run__uuid=row.run_id,
            channel=Channel.FILE,
            body=row.body,
        )
        if UUID(row.run_id) in own_uuids and duplicates.exists():
            results["there before"] += 1
            continue
        save_message(
            source=source, channel=Channel.FILE, content=row.content, body=row.body, now=now
        )
        tracked_run = CodeCarbonRun.objects.get(source=source, uuid=row.run_id)
        process_run(pk=tracked_run.pk)
        own_uuids.add(tracked_run.uuid)
        counted = CodeCarbonPost.objects.filter(tracked_run=tracked_run).latest("id").problem == ""
        results["imported" if counted else "not counted"] += 1
    return results
