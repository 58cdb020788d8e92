"""Kinds of activities: their inputs, formula, control of the electricity, and default PUE. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from apps.activity.choices import ActivityKind
from apps.activity.formulas import (
    cloud_compute,
    cloud_storage,
    external_cluster,
    file_server,
    network_transfer,
    other_device,
)
from apps.activity.formulas.estimate import Estimate, Values, text
from apps.activity.formulas.labels import LABELS
from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable, parse_decimal
from apps.core.units import PPM, US_PER_HOUR
from apps.fleet.choices import Control

MAX_TEXT = 200
MAX_DECIMALS = 9
MAX_NUMBER = 10**12
NUMBER_HINT = "Enter digits with at most one decimal point, such as 12.5."


@dataclass(frozen=True)
class Input:
    """An input of a kind: a number, one of ``choices``, or a text. ``default``: '' for none.

    ``can_be_zero``: 0 is a statement, such as an instance without GPUs. ``of_period``: hours of one
    unit, at most those of the period.
    """

    name: str
    label: str
    required: bool = False
    most: int = MAX_NUMBER
    choices: tuple[tuple[str, str], ...] = ()
    is_text: bool = False
    default: str = ""
    help: str = ""
    can_be_zero: bool = False
    of_period: bool = False


@dataclass(frozen=True)
class Kind:
    """A kind of activity. ``compute`` returns its energy without the facility."""

    kind: ActivityKind
    help: str
    inputs: tuple[Input, ...]
    compute: Callable[[Values], Estimate]
    control: Control
    pue_ppm: int
    pue_source: str


_PROVIDER = Input("provider", "Provider", True, choices=cloud_compute.PROVIDERS)
_STORED = (
    _PROVIDER,
    Input("tb_months", "TB-months", True, help="Mean stored terabytes × months."),
    Input("medium", "Medium", True, choices=cloud_storage.MEDIA),
    Input("replicas", "Replicas", most=100, default="1"),
)
_KWH = Input("kwh", LABELS["kwh"], help="As stated by a meter or the operator.")


def _hours(of_what: str, required: bool = False) -> Input:
    return Input("hours", LABELS["hours"], required, most=10**7, help=of_what, of_period=True)


INSIDE, OUTSIDE = "inside", "outside"
_BOUNDARY = ((OUTSIDE, "Outside the reporting boundary"), (INSIDE, "Inside the reporting boundary"))
_MACHINE_ROOM = (1_560_000, "unknown machine room: mean of Uptime Institute's survey of 2024")
_NO_PUE = (1_000_000, "no cooling of a machine room")


def _kinds() -> tuple[Kind, ...]:
    return (
        Kind(
            ActivityKind.CLOUD_COMPUTE,
            "Instances of a cloud provider, by vCPUs, memory and GPUs.",
            (
                _PROVIDER,
                Input(
                    "instance_type",
                    "Instance type",
                    is_text=True,
                    help="Such as p4d.24xlarge. vCPUs, memory and GPUs of a known type can be "
                    "left empty.",
                ),
                Input("instances", "Instances", most=10**6, default="1"),
                _hours("Of each instance.", required=True),
                Input("utilization", "Mean utilization (%)", True, most=100, can_be_zero=True),
                Input("vcpus", "vCPUs", most=10**4, help="Of one instance.", can_be_zero=True),
                Input("memory_gb", "Memory (GB)", most=10**6, help="Of one instance."),
                Input("gpu", "GPU model", is_text=True, help="Of the catalogue. Type to search."),
                Input("gpus", "GPUs", most=10**4, help="Of one instance.", can_be_zero=True),
            ),
            cloud_compute.compute,
            Control.CLOUD,
            *_MACHINE_ROOM,
        ),
        Kind(
            ActivityKind.CLOUD_STORAGE,
            "Data stored at a cloud provider.",
            _STORED,
            cloud_storage.compute,
            Control.CLOUD,
            *_MACHINE_ROOM,
        ),
        Kind(
            ActivityKind.CLOUD_BACKUP,
            "Backups stored at a cloud provider.",
            _STORED,
            cloud_storage.compute,
            Control.CLOUD,
            *_MACHINE_ROOM,
        ),
        Kind(
            ActivityKind.EXTERNAL_CLUSTER,
            "Core-hours and GPU-hours of a cluster, with the figures of its centre.",
            (
                Input("boundary", "Reporting boundary", choices=_BOUNDARY, default=OUTSIDE),
                _KWH,
                Input("core_hours", LABELS["core_hours"], can_be_zero=True),
                Input("watts_per_core", LABELS["watts_per_core"], most=10**5),
                Input("gpu_hours", LABELS["gpu_hours"], can_be_zero=True),
                Input("watts_per_gpu", LABELS["watts_per_gpu"], most=10**5),
            ),
            external_cluster.compute,
            Control.OUTSIDE_BOUNDARY,
            *_MACHINE_ROOM,
        ),
        Kind(
            ActivityKind.FILE_SERVER,
            "A file or backup server of the lab without a collector.",
            (
                _KWH,
                Input("disks", LABELS["disks"], most=10**6),
                Input("watts_per_disk", LABELS["watts_per_disk"], most=10**4),
                _hours("Of each disk."),
            ),
            file_server.compute,
            Control.OWN,
            *_MACHINE_ROOM,
        ),
        Kind(
            ActivityKind.NETWORK_TRANSFER,
            "Data sent over the internet.",
            (Input("gigabytes", "Data (GB)", True),),
            network_transfer.compute,
            Control.OUTSIDE_BOUNDARY,
            *_NO_PUE,
        ),
        Kind(
            ActivityKind.OTHER_DEVICE,
            "A laptop, desktop or board without a collector.",
            (
                Input("device", "Device", True, choices=other_device.DEVICES),
                _KWH,
                Input("count", "Number of devices", most=10**6, default="1"),
                Input("watts", LABELS["watts"], most=10**6),
                _hours("Of each device."),
            ),
            other_device.compute,
            Control.OWN,
            *_NO_PUE,
        ),
    )


KINDS: dict[str, Kind] = {kind.kind.value: kind for kind in _kinds()}


def kind_of(name: str) -> Kind:
    """Return a kind. Raises InvalidInput for an unknown one."""
    if name not in KINDS:
        raise InvalidInput(
            f"{name[:40]!r} is not a kind of activity.",
            field="kind",
            hint=f"Use one of {', '.join(KINDS)}.",
        )
    return KINDS[name]


def control_of(kind: Kind, inputs: Mapping[str, str]) -> Control:
    """Return who controls the electricity: it determines the scope."""
    if inputs.get("boundary") == INSIDE:
        return Control.INSIDE_BOUNDARY
    return kind.control


def default_pue(kind: Kind, inputs: Mapping[str, str]) -> tuple[int, str]:
    """Return the PUE of a kind in ppm, and its source."""
    pue_ppm = cloud_compute.PUE_PPM.get(inputs.get("provider", ""))
    if pue_ppm is not None:
        return (
            pue_ppm,
            "of the provider, after Cloud Carbon Footprint, Methodology (AWS: its estimate)",
        )
    return kind.pue_ppm, kind.pue_source


def parse_inputs(kind: Kind, raw: Mapping[str, Any]) -> dict[str, str]:
    """Return the inputs as stored: each a text, numbers in plain decimals. Raises InvalidInput."""
    known = {each.name: each for each in kind.inputs}
    for name in raw:
        if name not in known:
            raise InvalidInput(
                f"{str(name)[:40]!r} is not an input of {kind.kind.value}.",
                field="inputs",
                hint=f"Known: {', '.join(known)}.",
            )
    parsed = {each.name: _parsed(each, raw.get(each.name)) for each in kind.inputs}
    return {name: value for name, value in parsed.items() if value}


def values_of(kind: Kind, inputs: Mapping[str, str]) -> dict[str, Fraction | str]:
    """Return stored inputs as the formula reads them."""
    return {
        each.name: inputs[each.name]
        if each.is_text or each.choices
        else Fraction(inputs[each.name])
        for each in kind.inputs
        if each.name in inputs
    }


def _parsed(each: Input, raw: Any) -> str:
    if raw is None or raw == "":
        if each.required:
            raise InvalidInput(f"{each.label} is missing.", field=each.name, hint="Enter a value.")
        raw = each.default
        if not raw:
            return ""
    if isinstance(raw, bool) or not isinstance(raw, str | int | float | Decimal):
        raise InvalidInput(f"{each.label} is no number or text.", field=each.name)
    if not each.choices and not each.is_text:
        return _number(each, raw)
    entered = str(raw).strip()
    if each.choices:
        values = [value for value, _ in each.choices]
        if entered not in values:
            raise InvalidInput(
                f"{entered[:40]!r} is no {each.label.lower()}.",
                field=each.name,
                hint=f"Use one of {', '.join(values)}.",
            )
        return entered
    if is_unstorable(entered) or len(entered) > MAX_TEXT:
        raise InvalidInput(
            f"{each.label} is too long or contains an invalid character.",
            field=each.name,
            hint=f"Enter at most {MAX_TEXT} characters.",
        )
    return entered


def _number(each: Input, raw: str | float | Decimal) -> str:
    entered = raw if isinstance(raw, str) else _plain_text(raw)
    value = parse_decimal(entered)
    if value is None:
        raise InvalidInput(
            f"{each.label}: {str(raw)[:40]!r} is not a number.", field=each.name, hint=NUMBER_HINT
        )
    if value > each.most:
        raise InvalidInput(
            f"{each.label} is out of range.", field=each.name, hint=f"Enter at most {each.most}."
        )
    if not value and not each.can_be_zero:
        raise InvalidInput(f"{each.label} is 0.", field=each.name, hint=_zero_hint(each))
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -MAX_DECIMALS:
        raise InvalidInput(
            f"{each.label} has more than {MAX_DECIMALS} decimals.",
            field=each.name,
            hint="Round it.",
        )
    plain = f"{value:f}"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def _plain_text(number: float | Decimal) -> str:
    """Return a JSON number, or that of a form, in plain digits."""
    return f"{Decimal(repr(number)) if isinstance(number, float) else Decimal(number):f}"


def _zero_hint(each: Input) -> str:
    if each.required or each.default:
        return "Enter a number above 0. If nothing was used, record nothing."
    return (
        "Enter a number above 0. Leave it empty if it is unknown. If nothing was used, record "
        "nothing."
    )


def check_hours(kind: Kind, values: Values, duration_us: int, period: str = "the period") -> None:
    """Raise InvalidInput if the hours of one unit are more than those of the period."""
    period_hours = Fraction(duration_us, US_PER_HOUR)
    for each in kind.inputs:
        hours = values.get(each.name)
        if each.of_period and isinstance(hours, Fraction) and hours > period_hours:
            raise InvalidInput(
                f"{text(hours)} hours are more than the {text(period_hours)} hours of {period}.",
                field=each.name,
                hint="Enter the hours of one instance, disk or device. Their number is a field of "
                "its own.",
            )


def pue_text(pue_ppm: int) -> str:
    """Return a PUE as text: 1.135."""
    return f"{Decimal(pue_ppm) / PPM:f}"
