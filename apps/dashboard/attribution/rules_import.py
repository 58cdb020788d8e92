"""Many rules at once, from lines of CSV: read, checked, previewed together, written all or none."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from zoneinfo import ZoneInfo

from apps.accounts.models import Lab
from apps.attribution.models import AttributionRule
from apps.carbon.figures.visibility import Visibility
from apps.core.errors import InvalidInput, LabCarbonError
from apps.core.text import is_unstorable
from apps.dashboard.attribution.rules import Moved, criteria_text, draft, moved_by

COLUMNS = (
    "os_user", "account", "cluster", "namespace", "path_prefix", "node", "site", "project", "person", "from_day", "to_day",
    "note",
)  # fmt: skip
MAX_LINES = 1000
MAX_LENGTH = 200_000


@dataclass(frozen=True)
class ImportRow:
    """A line as read: what its rule speaks of and whose it is, or what is wrong."""

    line: int
    criteria_text: str
    project: str
    person: str
    error: str


@dataclass(frozen=True)
class ImportPage:
    """A file as read. ``rules`` are not written yet; ``moved`` is what they would move together."""

    rows: list[ImportRow]
    rules: list[AttributionRule]
    wrong: int
    moved: list[Moved] | None


def read(*, lab: Lab, text: str, zone: ZoneInfo, now: int, visibility: Visibility) -> ImportPage:
    """Read rules from CSV. Raises InvalidInput for the file; what is wrong with a line stands on its row."""
    rows: list[ImportRow] = []
    rules: list[AttributionRule] = []
    names = _Names(lab)
    for number, typed in _lines(text):
        try:
            rule = draft(lab=lab, typed=names.resolved(typed), zone=zone, now=now)
        except LabCarbonError as error:
            rows.append(
                ImportRow(number, "", typed.get("project", ""), typed.get("person", ""), f"{error.message} {error.hint}")
            )
            continue
        rules.append(rule)
        project = rule.project.name if rule.project else ""
        rows.append(ImportRow(number, criteria_text(rule), project, rule.person.get_username() if rule.person else "", ""))
    wrong = len(rows) - len(rules)
    return ImportPage(rows, rules, wrong, [] if wrong else moved_by(lab, rules, visibility))


def _lines(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    if len(text) > MAX_LENGTH or is_unstorable(text):
        raise InvalidInput(f"At most {MAX_LENGTH:,} letters, without NUL.", field="lines", hint="Split the file.")
    reader = csv.DictReader(StringIO(text.strip("\ufeff\n ")))
    header = [name.strip().lower() for name in reader.fieldnames or []]
    unknown = [name for name in header if name not in COLUMNS]
    if not header or unknown:
        raise InvalidInput(
            f"Unknown column {unknown[0][:40]!r}." if unknown else "There are no lines.", field="lines",
            hint=f"The first line names columns out of: {', '.join(COLUMNS)}.",
        )  # fmt: skip
    reader.fieldnames = header
    empty = True
    for row in reader:
        empty = False
        if reader.line_num > MAX_LINES:
            raise InvalidInput(f"More than {MAX_LINES} lines.", field="lines", hint="Split the file.")
        yield (
            reader.line_num,
            {name: (value or "").strip() for name, value in row.items() if name in COLUMNS and isinstance(value, str)},
        )
    if empty:
        raise InvalidInput("There is only a first line.", field="lines", hint="Add a line for each rule.")


class _Names:
    """What people write in a file (host names, site names, user names) as the form has it."""

    def __init__(self, lab: Lab) -> None:
        self._nodes = {name: str(uuid) for name, uuid in lab.nodes.values_list("hostname", "uuid")}
        self._sites = {name: str(pk) for name, pk in lab.sites.values_list("name", "pk")}
        self._people = {name: str(pk) for name, pk in lab.memberships.values_list("user__username", "user_id")}

    def resolved(self, typed: dict[str, str]) -> dict[str, str]:
        """Return a line with names replaced by keys; what is not known stays, and is refused by name."""
        known = {"node": self._nodes, "site": self._sites, "person": self._people}
        return {name: known.get(name, {}).get(value, value) for name, value in typed.items()}
