"""Messages of CodeCarbon, in LabCarbon units and with their time intervals. Pure.

Format of the messages: the client `codecarbon` 3.3.2, `core/api_client.py`, `core/schemas.py` and
`output_methods/emissions_data.py`.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any

from apps.core import json_input
from apps.core.errors import InvalidInput
from apps.core.intervals import datetime_to_us
from apps.core.text import replace_unstorable
from apps.core.units import PPM, UG_PER_KG, US_PER_S, kwh_to_mj

COMPONENTS = ("gpu", "cpu", "ram")
MAX_KWH = 1_000_000  # per interval; one machine cannot draw more
MAX_DURATION_S = 366 * 86_400
TRUSTED_SKEW_US = 300 * US_PER_S
# Facts of the client that identify a machine.
_HARDWARE = ("os", "cpu_model", "cpu_count", "gpu_model", "gpu_count", "ram_total_size")
_SHORT_FACTS = 40


@dataclass(frozen=True)
class Reading:
    """The content of one message: energy of each component over ``duration_us`` before ``at_us``.

    Energy in mJ, without PUE. ``at_us`` None: no time with a time zone.
    ``client_ug``: carbon by the client, or None.
    """

    at_us: int | None
    duration_us: int
    gpu_mj: int
    cpu_mj: int
    ram_mj: int
    client_ug: int | None

    @property
    def energy_mj(self) -> int:
        return self.gpu_mj + self.cpu_mj + self.ram_mj

    def less(self, earlier: "Reading") -> "Reading":
        """Return the difference between a cumulative record and an earlier one.

        Raises InvalidInput if it is negative.
        """
        has_client_ug = self.client_ug is not None and earlier.client_ug is not None
        added = Reading(
            self.at_us,
            self.duration_us - earlier.duration_us,
            self.gpu_mj - earlier.gpu_mj,
            self.cpu_mj - earlier.cpu_mj,
            self.ram_mj - earlier.ram_mj,
            (self.client_ug or 0) - (earlier.client_ug or 0) if has_client_ug else None,
        )
        if min(added.duration_us, added.gpu_mj, added.cpu_mj, added.ram_mj) < 0:
            raise InvalidInput("This record has less energy than an earlier one of the same run.")
        return added


def parse_json(body: bytes) -> dict[str, Any]:
    """Return a JSON object with exact numbers. Raises InvalidInput."""
    content = json_input.parse_json(body, parse_float=_exact)
    if not isinstance(content, dict):
        raise InvalidInput(
            "The body is not a JSON object.",
            code="parse_error",
            hint="CodeCarbon sends a JSON object.",
        )
    return content


def _exact(text: str) -> Decimal:
    if math.isinf(float(text)):
        raise ValueError(text)
    return Decimal(text)


def parse_reading(
    content: Mapping[str, Any], *, client_pue_ppm: int, zone: tzinfo | None = None
) -> Reading:
    """Return the content of a message. Raises InvalidInput.

    ``client_pue_ppm`` is divided out unless the message has its own PUE.
    ``zone``: time zone of times without one. None: such a time is ignored.
    """
    pue_ppm = client_pue_ppm
    if content.get("pue") not in (None, ""):
        pue_ppm = int(_number(content, "pue", min_value=Decimal(1), max_value=Decimal(100)) * PPM)
    duration_us = int(_number(content, "duration", max_value=Decimal(MAX_DURATION_S)) * US_PER_S)
    gpu_mj, cpu_mj, ram_mj = (_energy_mj(content, f"{name}_energy", pue_ppm) for name in COMPONENTS)
    name = "emissions_sum" if "emissions_sum" in content else "emissions"
    kg = (
        _number(content, name, max_value=Decimal(10**6))
        if content.get(name) not in (None, "")
        else None
    )
    client_ug = None if kg is None else int(Fraction(kg) * UG_PER_KG * 2 + 1) // 2
    return Reading(_moment(content, zone), duration_us, gpu_mj, cpu_mj, ram_mj, client_ug)


def _energy_mj(content: Mapping[str, Any], name: str, pue_ppm: int) -> int:
    """Return kWh × PUE as mJ without the PUE, rounded once, half up. A missing value is 0."""
    if content.get(name) in (None, ""):
        return 0
    return kwh_to_mj(Fraction(_number(content, name, max_value=Decimal(MAX_KWH))) * PPM / pue_ppm)


def _number(
    content: Mapping[str, Any], name: str, *, min_value: Decimal = Decimal(0), max_value: Decimal
) -> Decimal:
    value = content.get(name)
    try:
        number = (
            Decimal(str(value))
            if isinstance(value, int | Decimal | str) and not isinstance(value, bool)
            else None
        )
    except ArithmeticError:
        number = None
    if number is None or not number.is_finite():
        raise InvalidInput(
            f"{name} is {str(value)[:40]!r}, not a number.",
            field=name,
            hint="CodeCarbon sends a number.",
        )
    if not min_value <= number <= max_value:
        raise InvalidInput(
            f"{name} is {str(value)[:40]}.",
            field=name,
            hint=f"Allowed: {min_value} to {max_value}.",
        )
    return number


def _moment(content: Mapping[str, Any], zone: tzinfo | None) -> int | None:
    text = content.get("timestamp")
    try:
        moment = datetime.fromisoformat(str(text).strip())
    except ValueError as error:
        raise InvalidInput(
            f"timestamp {str(text)[:40]!r} is no time.",
            field="timestamp",
            hint="CodeCarbon writes 2026-11-02T08:00:00.",
        ) from error
    if moment.tzinfo is None:
        if zone is None:
            return None
        moment = moment.replace(tzinfo=zone)
    if not datetime(2010, 1, 1, tzinfo=UTC) <= moment < datetime(2200, 1, 1, tzinfo=UTC):
        raise InvalidInput(f"timestamp {str(text)[:40]!r} is out of range.", field="timestamp")
    return datetime_to_us(moment)


@dataclass(frozen=True)
class Place:
    """The time interval of energy. ``imputed``: not by the client's clock."""

    start_us: int
    end_us: int
    imputed: bool


def place_interval(
    reading: Reading, *, received_us: int, occupied: Sequence[tuple[int, int]], is_live: bool
) -> Place | None:
    """Return the free interval for a message beside stored ones of its run, or None.

    The client truncates times to whole seconds, and reads its clock just after the last
    measurement. So neighbours may overlap by some seconds. The stored interval is unchanged.
    ``live``: the message was sent at its end, so a clock that differs by five minutes is not
    trusted.
    """
    at_us, imputed = reading.at_us, False
    if at_us is None or (is_live and abs(received_us - at_us) >= TRUSTED_SKEW_US):
        at_us, imputed = received_us, True
    start_us, end_us = at_us - max(reading.duration_us, US_PER_S), at_us
    before = [end for start, end in occupied if start < end_us and end < end_us]
    after = [start for start, end in occupied if start < end_us <= end]
    end_us = min([end_us, *after])
    start_us = max([start_us, *(end for end in before if end <= end_us)])
    if start_us >= end_us or any(start < end_us and end > start_us for start, end in occupied):
        return None
    return Place(start_us, end_us, imputed)


_SAME_CLIENT_OVERLAP_US = 3 * US_PER_S


def covers_same_time(place: Place, occupied: Iterable[tuple[int, int]]) -> bool:
    """Return whether an interval overlaps another more than intervals of one client do.

    The client reads the time of an interval up to two seconds late, after the answer with its id,
    and truncates a second.
    """
    return any(
        min(place.end_us, end_us) - max(place.start_us, start_us) > _SAME_CLIENT_OVERLAP_US
        for start_us, end_us in occupied
    )


def description(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a run that do not depend on its time."""
    return {name: value for name, value in facts.items() if name != "timestamp"}


def created_at_us(facts: Mapping[str, Any], received_us: int) -> int:
    """Return when a client created its run, by its clock; ``received_us`` if it reports no time."""
    try:
        at_us = _moment(facts, None)
    except InvalidInput:
        return received_us
    return received_us if at_us is None else at_us


def hardware_signature(facts: Mapping[str, Any], *, node: str) -> str:
    """Return a hash of the hardware of a client; '' without CPU and GPU. `node`: if bound."""
    if not (facts.get("cpu_model") or facts.get("gpu_model")):
        return ""
    parts = [node, *(str(facts.get(name)) for name in _HARDWARE)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def short_facts(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the client's description of itself as stored: bounded, storable scalars."""
    facts: dict[str, Any] = {}
    for name, value in list(content.items())[:_SHORT_FACTS]:
        if isinstance(value, Decimal):
            value = float(value)
        if isinstance(value, str):
            value = value[:256]
        if value is None or isinstance(value, str | int | float | bool):
            facts[str(name)[:64]] = value
    result: dict[str, Any] = replace_unstorable(facts)
    return result


@dataclass(frozen=True)
class Interval:
    """An interval to compare with others."""

    start_us: int
    end_us: int
    gpu_mj: int
    cpu_mj: int
    ram_mj: int


_ALIKE_PM = 10  # per mille: counters of one machine, read some hundred ms apart over two minutes
_TOGETHER_PM = 800


def same_readings(one: Interval, other: Interval) -> bool:
    """Return whether two intervals look like one node measured twice.

    They overlap by four fifths of the longer one, and the mean power of each component agrees
    within one per cent. Memory alone is not evidence: its power is a constant of its size.
    """
    overlap_us = min(one.end_us, other.end_us) - max(one.start_us, other.start_us)
    longer_us = max(one.end_us - one.start_us, other.end_us - other.start_us)
    if overlap_us * 1000 < longer_us * _TOGETHER_PM or one.gpu_mj + one.cpu_mj == 0:
        return False
    lengths = one.end_us - one.start_us, other.end_us - other.start_us
    return all(
        abs(a * lengths[1] - b * lengths[0]) * 1000
        <= max(a * lengths[1], b * lengths[0]) * _ALIKE_PM
        for a, b in (
            (one.gpu_mj, other.gpu_mj),
            (one.cpu_mj, other.cpu_mj),
            (one.ram_mj, other.ram_mj),
        )
    )
