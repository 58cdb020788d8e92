"""Sums of the lines of a billing export, by what is stored. Pure."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal

from apps.billing.choices import Category, Charge
from apps.billing.formats.line import DAY_US, HOUR_US, Line
from apps.core.errors import InvalidInput, TooLarge

MILLION = Decimal(10**6)
MAX_ITEMS = 200_000
MAX_SUM = Decimal(10**12)
MAX_ACCOUNTS = 500
MAX_TAG_KEYS = 100
MAX_TAG_VALUES = 300


@dataclass(frozen=True, slots=True)
class ItemKey:
    """What the lines of an item have in common. ``project``: its id, None without one."""

    account: str
    month: str
    start_us: int
    end_us: int
    charge: str
    category: str
    instance_type: str
    gpu: str
    medium: str
    region: str
    resource: str
    project: int | None


@dataclass(slots=True)
class Sums:
    """Exact sums of the lines of an item."""

    amount: Decimal = Decimal(0)
    cost: Decimal = Decimal(0)
    lines: int = 0


@dataclass
class Scan:
    """Names in an export: accounts with their lines, months, tags with their values.

    ``has_more_tags``: some tags or values are too many or too long to be listed.
    ``has_resources``: ids of instances are in it.
    """

    accounts: Counter[str] = field(default_factory=Counter)
    months: Counter[str] = field(default_factory=Counter)
    tags: dict[str, Counter[str]] = field(default_factory=dict)
    lines: int = 0
    has_more_tags: bool = False
    has_resources: bool = False

    def add(self, line: Line) -> None:
        """Count a line. Raises TooLarge."""
        self.lines += 1
        if not line.is_listed:
            return
        self.accounts[line.account] += 1
        self.months[line.month] += 1
        self.has_resources |= bool(line.resource)
        if len(self.accounts) > MAX_ACCOUNTS:
            raise TooLarge(
                f"The export has more than {MAX_ACCOUNTS} accounts.",
                field="file",
                hint="Export the accounts of the lab only.",
            )
        for key, value in line.tags.items():
            if not value or not key:
                continue
            values = self.tags.get(key)
            if values is None and len(self.tags) < MAX_TAG_KEYS and len(key) <= 128:
                values = self.tags[key] = Counter()
            is_new = values is not None and value not in values
            if values is None or (is_new and (len(values) >= MAX_TAG_VALUES or len(value) > 200)):
                self.has_more_tags = True
                continue
            values[value] += 1


@dataclass
class Totals:
    """Items of the mapped accounts. ``currencies``: of each account and month."""

    items: dict[ItemKey, Sums] = field(default_factory=dict)
    currencies: dict[tuple[str, str], str] = field(default_factory=dict)
    lines: int = 0
    ignored: int = 0


def add_line(
    totals: Totals,
    line: Line,
    project_of: Callable[[Line], int | None],
    accounts: frozenset[str],
    resources: frozenset[str],
) -> None:
    """Add a line of a mapped account to its item. ``resources``: ids of instances with a
    collector; of others the id is not stored. Raises InvalidInput, TooLarge.
    """
    totals.lines += 1
    if line.account not in accounts or not line.is_listed:
        totals.ignored += 1
        return
    where = line.account, line.month
    currency = totals.currencies.setdefault(where, line.currency)
    if currency != line.currency:
        raise InvalidInput(
            f"Account {line.account} has costs in {currency} and in {line.currency} in "
            f"{line.month}.",
            field="file",
            hint="Export the costs in the billing currency.",
        )
    is_usage = line.charge == Charge.USAGE
    start_us, end_us = _span(line) if is_usage else (0, 0)
    key = ItemKey(
        *where,
        start_us,
        end_us,
        line.charge,
        line.category if is_usage else Category.NONE,
        line.instance_type if is_usage else "",
        line.gpu if is_usage else "",
        line.medium if is_usage else "",
        line.region if is_usage else "",
        line.resource if is_usage and line.resource in resources else "",
        project_of(line),
    )
    sums = totals.items.get(key)
    if sums is None:
        if len(totals.items) >= MAX_ITEMS:
            raise TooLarge(
                f"The export has more than {MAX_ITEMS} different items.",
                field="file",
                hint="Export one month at a time.",
            )
        sums = totals.items[key] = Sums()
    if is_usage:
        sums.amount += line.amount
    sums.cost += line.cost
    sums.lines += 1
    if max(abs(sums.amount), abs(sums.cost)) > MAX_SUM:
        raise InvalidInput("A sum of use or cost is out of range.", field="file")


def _span(line: Line) -> tuple[int, int]:
    """Return the UTC day of a line, or its hours if it is not within one day."""
    day = line.start_us - line.start_us % DAY_US
    if line.end_us <= day + DAY_US:
        return day, day + DAY_US
    return line.start_us - line.start_us % HOUR_US, -(-line.end_us // HOUR_US) * HOUR_US


def millionths(value: Decimal) -> int:
    """Return a sum in millionths of its unit, half up (away from zero)."""
    return int((value * MILLION).quantize(Decimal(1), rounding=ROUND_HALF_UP))
