"""A pytest plugin that skips and lists tests whose Debian package is missing. With CI=true skipped
tests fail the run.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services import chromium, codecarbon, mlflow, postgres, redis, slurm

PREFIX = "left out: "


def _on_postgres() -> bool:
    from django.conf import settings

    return bool(settings.ENVIRONMENT.is_served)


def _missing() -> dict[str, str]:
    """Return {marker: missing package and install command}."""
    missing = {}
    if not chromium.program():
        missing["browser"] = "Chromium is not installed (apt-get install chromium-headless-shell)"
    if not redis.program():
        missing["redis"] = "Redis is not installed (apt-get install redis-server)"
    if slurm.missing():
        missing["slurm"] = slurm.missing()
    if codecarbon.missing():
        missing["codecarbon"] = codecarbon.missing()
    if mlflow.missing():
        missing["mlflow"] = mlflow.missing()
    if not _on_postgres():
        missing["postgres"] = (
            "PostgreSQL is not installed (apt-get install postgresql)"
            if postgres.programs() is None
            else "this pass runs on SQLite (`make test` runs both)"
        )
    return missing


def _uses_database(item: pytest.Item) -> bool:
    fixtures = {"db", "transactional_db", "live_server"} & set(getattr(item, "fixturenames", ()))
    return bool(fixtures) or any(
        item.get_closest_marker(name) for name in ("django_db", "postgres")
    )


def _belongs_to_other_pass(item: pytest.Item) -> bool:
    """Return whether a test belongs to the pass on the other database."""
    if _on_postgres():
        return not _uses_database(item) or item.get_closest_marker("sqlite") is not None
    return item.get_closest_marker("postgres") is not None and postgres.programs() is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("LABCARBON_TEST_BOTH"):
        elsewhere = [item for item in items if _belongs_to_other_pass(item)]
        items[:] = [item for item in items if not _belongs_to_other_pass(item)]
        config.hook.pytest_deselected(items=elsewhere)
    missing = _missing()
    for item in items:
        for marker, reason in missing.items():
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=PREFIX + reason))


def _reasons(reporter: pytest.TerminalReporter) -> dict[str, int]:
    """Return {reason: number of skipped tests}."""
    counts: dict[str, int] = {}
    for report in reporter.stats.get("skipped", []):
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = text.removeprefix("Skipped: ").removeprefix(PREFIX)
        counts[reason] = counts.get(reason, 0) + 1
    return counts


def _lines(reporter: pytest.TerminalReporter) -> Iterator[str]:
    for reason, count in sorted(_reasons(reporter).items()):
        yield f"{PREFIX}{count} test{'s' if count > 1 else ''}: {reason}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = list(_lines(terminalreporter))
    for line in lines:
        terminalreporter.write_line(line, yellow=True)
    report_path = os.environ.get("LABCARBON_TEST_LEFT_OUT")
    if report_path and lines:
        with Path(report_path).open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run if tests were skipped with CI=true."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if (
        os.environ.get("CI", "").lower() not in {"1", "true"}
        or reporter is None
        or "PYTEST_XDIST_WORKER" in os.environ
    ):
        return
    if _reasons(reporter) and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
