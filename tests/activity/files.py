"""Files of activities for tests."""

from datetime import date, timedelta

from apps.activity.models import ActivityFile
from apps.activity.services.activity_files import assign_columns, confirm, upload
from apps.activity.services.file_layout import Answers, columns_of_file
from apps.core.clock import now_us
from apps.core.jobs import run_until_idle
from tests.builders import SmallLab

HEADINGS = "kind,id,name,project,first day,last day,zone,kwh,provider,tb_months,medium"
MIXED = f"""{HEADINGS}
file_server,,nas-1,demo,2026-10-01,2026-10-02,DE,12,,,
Cloud storage,bill-7,bucket,demo,2026-10-01,2026-10-02,eu-central-1,,AWS,2.5,hdd
file_server,,nas-2,nope,2026-10-01,2026-10-02,DE,12,,,
file_server,,nas-3,demo,soon,2026-10-02,DE,12,,,
file_server,,nas-1,demo,2026-10-01,2026-10-02,DE,12,,,
"""


def uploaded(lab: SmallLab, text: str | bytes, name: str = "use.csv") -> ActivityFile:
    content = text.encode() if isinstance(text, str) else text
    return upload(
        lab=lab.lab,
        file_name=name,
        content=content,
        encoding="",
        sheet="",
        by=lab.owner,
        now=now_us(),
    )


def checked(lab: SmallLab, text: str | bytes, kind: str = "", **answers: str) -> ActivityFile:
    """Return a file whose columns are assigned as proposed, and whose rows are checked."""
    file = uploaded(lab, text)
    columns = {column.key: column.field for column in columns_of_file(file)}
    assign_columns(file=file, answers=Answers(columns, kind, **answers), now=now_us())
    run_until_idle(worker="test")
    file.refresh_from_db()
    return file


def recorded(lab: SmallLab, text: str | bytes, kind: str = "", **answers: str) -> ActivityFile:
    """Return a file whose good rows are recorded."""
    file = checked(lab, text, kind, **answers)
    if file.new:
        confirm(file=file, by=lab.owner, now=now_us())
        run_until_idle(worker="test")
        file.refresh_from_db()
    return file


def counts(file: ActivityFile) -> tuple[str, int, int, int]:
    return (file.state, file.new, file.known, file.wrong)


def many_rows(number: int, bad_every: int = 0) -> str:
    """Return a file of short file server uses; each ``bad_every``-th row has no energy."""
    lines = ["name,project,from,to,zone,kwh"]
    first = date(2026, 1, 1)
    for i in range(number):
        day = first + timedelta(days=i % 28)
        kwh = "" if bad_every and i % bad_every == 0 else f"{i % 97 + 1}.{i % 10}"
        lines.append(f"job {i},demo,{day}T08:00Z,{day}T10:00Z,DE,{kwh}")
    return "\n".join(lines)
