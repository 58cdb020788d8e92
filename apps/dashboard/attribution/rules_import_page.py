"""Rules from CSV: parsed, checked and previewed together."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO

from apps.accounts.models import Lab
from apps.attribution.models import AttributionRule
from apps.carbon.figures.visibility import Visibility
from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable
from apps.dashboard.attribution.forms import RuleForm
from apps.dashboard.attribution.rule_pages import ChargeChange, charge_changes, criteria_text
from apps.dashboard.decorators import Visitor

COLUMNS = (
    "os_user", "account", "cluster", "namespace", "path_prefix", "node", "site", "project",
    "person", "from_day", "to_day", "note",
)  # fmt: skip
MAX_LINES = 1000
MAX_LENGTH = 200_000


@dataclass(frozen=True)
class ImportRow:
    """A line of the CSV: its rule, or its error with the names of the columns concerned."""

    line: int
    criteria_text: str
    project: str
    person: str
    error: str = ""
    error_columns: str = ""


@dataclass(frozen=True)
class ImportPreview:
    """Parsed rules, not saved, and their joint effect. ``changes`` as in ``Preview``."""

    rows: list[ImportRow]
    rules: list[AttributionRule]
    error_count: int
    changes: list[ChargeChange] | None


def read_rules(*, visitor: Visitor, text: str, visibility: Visibility) -> ImportPreview:
    """Parse rules from CSV. Raises InvalidInput for the whole text. Errors of a line are on its
    row.
    """
    rows: list[ImportRow] = []
    rules: list[AttributionRule] = []
    names = _Names(visitor.lab)
    for number, values in _lines(text):
        form = RuleForm(visitor, names.resolved(values))
        rule = form.draft()
        if rule is None:
            rows.append(_error_row(number, values, form))
            continue
        rules.append(rule)
        project = rule.project.name if rule.project else ""
        rows.append(
            ImportRow(
                number,
                criteria_text(rule),
                project,
                rule.person.get_username() if rule.person else "",
            )
        )
    error_count = len(rows) - len(rules)
    return ImportPreview(
        rows,
        rules,
        error_count,
        [] if error_count else charge_changes(visitor.lab, rules, visibility),
    )


def _error_row(number: int, values: dict[str, str], form: RuleForm) -> ImportRow:
    errors = [
        f"{column}: {message}" if column in COLUMNS else str(message)
        for column, messages in form.errors.items()
        for message in messages
    ]
    return ImportRow(
        number,
        "",
        values.get("project", ""),
        values.get("person", ""),
        " ".join(errors),
        " ".join(form.errors),
    )


def _lines(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    if len(text) > MAX_LENGTH or is_unstorable(text):
        raise InvalidInput(
            f"The text has more than {MAX_LENGTH:,} characters, or an invalid one.",
            field="lines",
            hint="Split the file.",
        )
    reader = csv.DictReader(StringIO(text.strip("\ufeff\n ")))
    header = [name.strip().lower() for name in reader.fieldnames or []]
    unknown = [name for name in header if name not in COLUMNS]
    if not header or unknown:
        raise InvalidInput(
            f"Unknown column {unknown[0][:40]!r}." if unknown else "No lines.",
            field="lines",
            hint=f"The first line contains column names out of: {', '.join(COLUMNS)}.",
        )
    reader.fieldnames = header
    empty = True
    for row in reader:
        empty = False
        if reader.line_num > MAX_LINES:
            raise InvalidInput(
                f"More than {MAX_LINES} lines.", field="lines", hint="Split the file."
            )
        yield (
            reader.line_num,
            {
                name: (value or "").strip()
                for name, value in row.items()
                if name in COLUMNS and isinstance(value, str)
            },
        )
    if empty:
        raise InvalidInput(
            "No rules below the column names.", field="lines", hint="Add a line for each rule."
        )


class _Names:
    """Values of the form for the names in a file: names of nodes, sites and users."""

    def __init__(self, lab: Lab) -> None:
        self._nodes = {
            name: str(node.uuid) for node in lab.nodes.all() for name in (node.name, node.hostname)
        }
        self._sites = {name: str(pk) for name, pk in lab.sites.values_list("name", "pk")}
        self._people = {
            name: str(pk) for name, pk in lab.memberships.values_list("user__username", "user_id")
        }

    def resolved(self, values: dict[str, str]) -> dict[str, str]:
        """Return a line with names replaced by keys. The form refuses unknown names."""
        keys = {"node": self._nodes, "site": self._sites, "person": self._people}
        return {column: keys.get(column, {}).get(value, value) for column, value in values.items()}
