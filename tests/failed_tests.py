"""A pytest plugin that writes failed tests and their messages to a file, so that ``tests.run``
repeats them at the end: a log that is cut keeps its last lines.
"""

import os
from pathlib import Path

import pytest

_LONGEST_MESSAGE = 300


def _message(report: pytest.TestReport) -> str:
    """Return the exception of a report on one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr)
    return " ".join(text.split())[:_LONGEST_MESSAGE]


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    path = os.environ.get("LABCARBON_TEST_FAILED")
    if path is None:
        return
    reports = [
        report
        for outcome in ("failed", "error")
        for report in terminalreporter.stats.get(outcome, [])
    ]
    with Path(path).open("a", encoding="utf-8") as file:
        file.writelines(f"{report.nodeid}: {_message(report)}\n" for report in reports)
