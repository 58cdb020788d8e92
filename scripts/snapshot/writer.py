"""Writes all parts of a snapshot."""

import json
import logging
import os
import time
from pathlib import Path
from typing import Any

from scripts.snapshot import collector
from scripts.snapshot.fixed_clock import frozen

_STARTED = time.perf_counter()


def progress(text: str) -> None:
    """Print a line of progress."""
    print(f"{time.perf_counter() - _STARTED:6.1f} s  {text}", flush=True)


def save(path: Path, value: Any) -> None:
    """Write a value as sorted, indented JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def commands() -> dict[str, list[str]]:
    """Return the options of the server's own management commands."""
    from django.core.management import get_commands, load_command_class

    options = {}
    for name, app in get_commands().items():
        if isinstance(app, str) and app.startswith(("apps.", "labcarbon")):
            parser = load_command_class(app, name).create_parser("manage.py", name)
            actions = parser._actions  # noqa: SLF001
            options[name] = sorted(option for action in actions for option in action.option_strings)
    return options


def write(folder: Path, *, data_dir: Path, database_url: str, like: Path | None) -> None:
    """Build the lab and write its facts."""
    addresses = json.loads((like / "addresses.json").read_text(encoding="utf-8")) if like else None
    recordings = data_dir / "collector"
    recordings.mkdir()
    save(folder / "collector.json", collector.record_all(recordings, progress))
    logging.disable(logging.CRITICAL)  # refused requests are facts as well
    with frozen():
        from scripts.snapshot import lab

        lab.start_django(data_dir, database_url)
        tokens = lab.build(progress)
        from scripts.snapshot import api, database, pages, writes

        visits = pages.visit_all(addresses["pages"] if addresses else None, progress)
        requests = api.request_all(
            addresses["api"] if addresses else None, visits.queries, progress
        )
        writes.write_all(requests, tokens)
        save(folder / "addresses.json", {"pages": visits.addresses, "api": requests.addresses})
        for name, part in (
            ("pages", visits.pages),
            ("forms", visits.forms),
            ("charts", visits.charts),
            ("csv", visits.csv),
            ("csv_headings", visits.headings),
            ("api", requests.responses),
            ("api_messages", requests.messages),
            ("openapi", requests.schema),
        ):
            save(folder / f"{name}.json", part)
        for kind, texts in (("text", visits.texts), ("html", visits.html)):
            for name, text in texts.items():
                path = folder / kind / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text + "\n", encoding="utf-8")
        save(folder / "schema.json", database.schema())
        save(folder / "commands.json", commands())
        rows, sums = 0, {}
        tables = database.tables()
        for table in tables:
            values = database.rows_of(table)
            rows += len(values)
            sums[table] = database.sums_of(values)
            save(folder / "rows" / f"{table}.json", values)
        save(folder / "sums.json", sums)
    figures = sum(len(page["values"]) for page in visits.pages.values())
    counts = {
        "pages": len(visits.pages),
        "values on pages": figures,
        "charts": len(visits.charts),
        "csv files": len(visits.csv),
        "csv rows": sum(len(table) for table in visits.csv.values()),
        "api responses": len(requests.responses),
        "tables": len(tables),
        "rows": rows,
    }
    seconds = round(time.perf_counter() - _STARTED)
    save(
        folder / "about.json",
        {
            **counts,
            "seconds": seconds,
            "database": os.environ["LABCARBON_DATABASE_URL"] or "SQLite",
        },
    )
    progress(", ".join(f"{count} {name}" for name, count in counts.items()))
