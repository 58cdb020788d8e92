"""A pytest plugin that prints failed tests as they fail, and writes them to a file, which
``tests.run`` repeats at the end: a log that is cut keeps its last lines.
"""

import os
from pathlib import Path

import pytest

_LONGEST_MESSAGE = 300
_reporters: list[pytest.TerminalReporter] = []


def _message(report: pytest.TestReport) -> str:
    """Return the exception of a report on one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr)
    return " ".join(text.split())[:_LONGEST_MESSAGE]


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(session.config, "workerinput"):
        _reporters.append(reporter)


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print a failure and append it to the file."""
    path = os.environ.get("LABCARBON_TEST_FAILED")
    if path is None or not report.failed or not _reporters:
        return
    line = f"{report.nodeid}: {_message(report)}"
    _reporters[0].ensure_newline()
    _reporters[0].write_line(f"failed: {line}")
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
