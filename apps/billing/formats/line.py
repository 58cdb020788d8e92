"""A line of a billing export, and what all formats need to read one. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation

from apps.billing.choices import Category, Charge
from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable

MAX_TEXT = 200
MAX_RESOURCE = 1_000
MAX_CURRENCY = 10
MAX_VALUE = Decimal(10**24)  # bytes × seconds of Google Cloud
GIB = Decimal(2**30)
GB = Decimal(10**9)
HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
# A stored month of the formula of cloud storage: 8 760 h ÷ 12.
MONTH_HOURS = Decimal(730)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a bill.

    - ``month``: billing month, such as 2026-10.
    - ``amount``: hours of instances or GPUs, GB-months (10⁹ bytes for 730 h), or GB. 0 if the line
      carries money only.
    - ``gpu``: model of the GPU whose hours the line counts, '' for hours of instances.
    - ``cost``: as billed, in ``currency``.
    - ``is_listed``: part of compute, storage or transfer, so that it is stored.
    """

    account: str
    month: str
    start_us: int
    end_us: int
    charge: Charge
    category: Category
    amount: Decimal
    cost: Decimal
    currency: str
    is_listed: bool
    instance_type: str = ""
    gpu: str = ""
    medium: str = ""
    region: str = ""
    resource: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


def decimal_of(text: object, name: str, *, is_required: bool = False) -> Decimal:
    """Return a number; 0 for an empty cell that is not required. Raises InvalidInput."""
    raw = "" if text is None else str(text).strip()
    if not raw and not is_required:
        return Decimal(0)
    if not raw:
        raise InvalidInput(f"{name} is empty.", field="file", hint="Download the export again.")
    try:
        value = Decimal(raw)
    except InvalidOperation as error:
        raise InvalidInput(f"{name} {raw[:40]!r} is not a number.", field="file") from error
    if not value.is_finite() or abs(value) > MAX_VALUE:
        raise InvalidInput(f"{name} {raw[:40]!r} is out of range.", field="file")
    return value


def text_of(text: object, name: str, most: int = MAX_TEXT) -> str:
    """Return a text as stored. Raises InvalidInput for what no database stores."""
    raw = "" if text is None else str(text).strip()
    if is_unstorable(raw):
        raise InvalidInput(f"{name} contains an invalid character.", field="file")
    if len(raw) > most:
        raise InvalidInput(f"{name} is longer than {most} characters.", field="file")
    return raw


def time_us(text: object, name: str) -> int:
    """Return a UTC time such as 2026-10-01T00:00:00Z or ``2026-10-01 00:00:00 UTC``. Raises
    InvalidInput.
    """
    raw = "" if text is None else str(text).strip()
    try:
        value = datetime.fromisoformat(raw.removesuffix("UTC").strip())
    except ValueError as error:
        raise InvalidInput(f"{name} {raw[:40]!r} is not a time.", field="file") from error
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return _microseconds(value, name)


def day_us(text: object, name: str) -> int:
    """Return the begin of a UTC day such as 2026-10-01 or 10/31/2026 (month first). Raises
    InvalidInput.
    """
    raw = "" if text is None else str(text).strip()
    for form in ("%Y-%m-%d", "%m/%d/%Y", "%Y%m%d"):
        try:
            day = datetime.strptime(raw[:10], form).replace(tzinfo=UTC)
        except ValueError:
            continue
        return _microseconds(day, name)
    raise InvalidInput(f"{name} {raw[:40]!r} is not a day.", field="file")


def _microseconds(value: datetime, name: str) -> int:
    if not 1990 <= value.year <= 2200:
        raise InvalidInput(f"{name} {value.isoformat()} is out of range.", field="file")
    return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def month_of(us: int) -> str:
    """Return the UTC month of a time: 2026-10."""
    return (date(1970, 1, 1) + timedelta(days=us // DAY_US)).isoformat()[:7]


def month_hours(month: str) -> Decimal:
    """Return the hours of a month such as 2026-10."""
    first = date.fromisoformat(f"{month}-01")
    following = (first + timedelta(days=31)).replace(day=1)
    return Decimal((following - first).days * 24)


def json_texts(text: object) -> dict[str, str]:
    """Return a JSON object of texts, such as tags; {} for an empty or unreadable one."""
    raw = "" if text is None else str(text).strip()
    if not raw:
        return {}
    if not raw.startswith("{"):
        raw = f"{{{raw}}}"
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    return known_tags((key, each) for key, each in value.items() if isinstance(each, str | int))


def known_tags(pairs: Iterable[tuple[object, object]]) -> dict[str, str]:
    """Return tags as texts, without those that no database stores."""
    tags = {str(key): str(value).strip() for key, value in pairs}
    return {key: value for key, value in tags.items() if not is_unstorable(f"{key}{value}")}
