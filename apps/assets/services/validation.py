"""Input of the asset services, and its validation."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from django.urls import reverse

from apps.accounts.models import Lab, Project, User
from apps.assets.choices import OPENING, Amortisation, EndOfLife, EventKind, PartsAction
from apps.assets.models import Asset, LifecycleEvent
from apps.assets.treatment import default_emissions
from apps.catalog.choices import FigureUnit, HardwareKind
from apps.catalog.models import EmbodiedFigure, HardwareModel
from apps.catalog.selectors import best_figure, model_of
from apps.catalog.server_configuration import Amount, Configuration, embodied, source_text
from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable
from apps.core.units import END_HOUR, HOURS_PER_YEAR, INT64_MAX, US_PER_HOUR, hour_of
from apps.fleet.models import Device, Node, Site

MOST_UG = 10**15  # 1 000 t
MOST_MASS_G = 10**7
LONGEST_LIFE_HOURS = 100 * HOURS_PER_YEAR
# Default planned life in years, by kind (see docs/assets.md).
LIFE_YEARS = {
    HardwareKind.GPU: 4, HardwareKind.CPU: 5, HardwareKind.SERVER: 5, HardwareKind.WORKSTATION: 5,
    HardwareKind.LAPTOP: 4, HardwareKind.STORAGE: 5, HardwareKind.NETWORK: 6,
    HardwareKind.MONITOR: 6, HardwareKind.OTHER: 5,
}  # fmt: skip


def check_currency_code(code: str) -> None:
    """Raise InvalidInput unless ``code`` is three letters, as a price needs."""
    if len(code) != 3 or not code.isascii() or not code.isalpha():
        raise InvalidInput(
            "A price needs a currency.",
            field="currency",
            hint="Enter three letters such as EUR.",
        )


@dataclass(frozen=True)
class Facts:
    """Facts about an asset. Texts can be empty. ``model``, price and warranty can be unknown."""

    name: str
    kind: str
    model: HardwareModel | None = None
    serial: str = ""
    tag: str = ""
    supplier: str = ""
    price_ucurrency: int | None = None
    currency: str = ""
    warranty_until: date | None = None
    location: str = ""
    note: str = ""
    order_number: str = ""
    contact: str = ""


@dataclass(frozen=True)
class Embodied:
    """Embodied carbon of an event, µg CO2e, with its range and the parts that are stated
    separately.
    """

    total_ug: int
    low_ug: int | None = None
    high_ug: int | None = None
    manufacture_ug: int | None = None
    transport_ug: int | None = None
    end_of_life_ug: int | None = None
    includes_end_of_life: bool | None = None
    figure: EmbodiedFigure | None = None
    source: str = ""

    @classmethod
    def of(cls, figure: EmbodiedFigure, times: int = 1) -> "Embodied":
        """Return the embodied carbon of ``times`` units of a catalogue figure."""

        def scaled(value: int | None) -> int | None:
            return None if value is None else value * times

        return cls(
            figure.total_ug * times,
            scaled(figure.low_ug),
            scaled(figure.high_ug),
            scaled(figure.manufacture_ug),
            scaled(figure.transport_ug),
            scaled(figure.end_of_life_ug),
            figure.includes_end_of_life,
            figure,
            figure.source,
        )


COMPUTABLE_KINDS = (HardwareKind.SERVER, HardwareKind.WORKSTATION)


def embodied_of_configuration(
    lab: Lab, kind: str, numbers: Mapping[str, Any], gpu_model: str
) -> Embodied:
    """Return the embodied carbon of a server by its configuration.

    ``numbers``: fields of a Configuration. ``gpu_model``: name of a GPU in the catalogue. Raises
    InvalidInput with the field.
    """
    if kind not in COMPUTABLE_KINDS:
        raise InvalidInput(
            "Only a server or a workstation is computed from its configuration.",
            field="configuration",
            hint="Choose a figure of the catalogue, or enter your own value.",
        )
    gpu, name = (None, "")
    if numbers.get("gpus"):
        gpu, name = _gpu_amount(lab, gpu_model)
    server = Configuration(**numbers, gpu=gpu, gpu_name=name)
    amount = embodied(server)
    return Embodied(
        amount.total_ug,
        amount.low_ug,
        amount.high_ug,
        manufacture_ug=None if server.gpus else amount.total_ug,
        includes_end_of_life=None if server.gpus else False,
        source=source_text(server),
    )


def _gpu_amount(lab: Lab, name: str) -> tuple[Amount, str]:
    model = model_of(HardwareKind.GPU, name, lab) if name else None
    figure = best_figure(model, lab) if model else None
    if model is None or figure is None or figure.unit != FigureUnit.ITEM:
        raise InvalidInput(
            f"The catalogue has no figure of the GPU {name[:60]!r}.",
            field="gpu_model",
            hint="Enter the name of a GPU that has a figure, or leave the GPUs out.",
        )
    return Amount(figure.total_ug, figure.low_ug, figure.high_ug), model.name


@dataclass(frozen=True)
class Entry:
    """A lifecycle event to record. Values that its kind does not have stay empty (see
    docs/assets.md). ``parts``: what a disposal does with the parts of the asset (PartsAction).
    """

    kind: str
    at_us: int
    embodied: Embodied | None = None
    life_hours: int | None = None
    life_end_us: int | None = None
    amortisation: str = ""
    project: Project | None = None
    parent: Asset | None = None
    site: Site | None = None
    counterpart: str = ""
    evidence: str = ""
    note: str = ""
    parts: str = ""
    end_of_life: str = ""
    mass_g: int | None = None


@dataclass(frozen=True)
class Draft:
    """An asset to register: facts, purchase, start of use (None: in stock), and its meter (a
    device, a node, or none).
    """

    facts: Facts
    opening: Entry
    deployed_us: int | None = None
    device: Device | None = None
    node: Node | None = None
    entries: tuple[Entry, ...] = field(default=())


FIELDS_OF_KIND = {
    EventKind.PURCHASE: {
        "embodied",
        "life_hours",
        "amortisation",
        "project",
        "parent",
        "site",
        "counterpart",
    },
    EventKind.SECOND_HAND: {
        "embodied",
        "life_hours",
        "amortisation",
        "project",
        "parent",
        "site",
        "counterpart",
    },
    EventKind.LEASE: {
        "embodied",
        "life_hours",
        "amortisation",
        "project",
        "parent",
        "site",
        "counterpart",
    },
    EventKind.DEPLOY: {"parent", "site"},
    EventKind.MOVE: {"parent", "site"},
    EventKind.TRANSFER: {"project"},
    EventKind.REPURPOSE: {"life_end_us", "amortisation"},
    EventKind.REPAIR: {"embodied", "counterpart"},
    EventKind.UPGRADE: set(),
    EventKind.LIFE_CHANGE: {"life_end_us", "amortisation"},
    EventKind.LEND: {"project", "counterpart"},
    EventKind.RETURN: set(),
    EventKind.RETIRE: set(),
    EventKind.DISPOSE: {"embodied", "counterpart", "parts", "end_of_life", "mass_g"},
}


def default_life_hours(kind: str) -> int:
    """Return the default planned life in hours."""
    return LIFE_YEARS[HardwareKind(kind)] * HOURS_PER_YEAR


def checked_facts(lab: Lab, facts: Facts) -> Facts:
    limits = {
        "name": 200, "serial": 120, "tag": 60, "supplier": 200, "location": 200, "note": 1000,
        "order_number": 100, "contact": 200,
    }  # fmt: skip
    facts = replace(facts, **{name: getattr(facts, name).strip() for name in limits})
    for name, limit in limits.items():
        text = getattr(facts, name)
        if len(text) > limit or is_unstorable(text):
            raise InvalidInput(
                f"Invalid text {text[:40]!r}.",
                field=name,
                hint=f"Use at most {limit} characters, without NUL.",
            )
    if not facts.name:
        raise InvalidInput(
            "An asset needs a name.", field="name", hint="Enter a name, such as model and number."
        )
    if facts.kind not in HardwareKind.values:
        raise InvalidInput(
            f"Unknown kind {facts.kind[:40]!r}.",
            field="kind",
            hint=f"Use one of {', '.join(HardwareKind.values)}.",
        )
    if facts.model is not None and facts.model.lab_id not in (None, lab.pk):
        raise InvalidInput(
            "No such model in this lab.", field="model", hint=f"See {reverse('catalog')}."
        )
    if facts.price_ucurrency is not None:
        if not 0 <= facts.price_ucurrency < INT64_MAX:
            raise InvalidInput(
                "This price is out of range.",
                field="price",
                hint="Leave it empty if it is unknown.",
            )
        check_currency_code(facts.currency)
    return replace(
        facts, currency=facts.currency.upper() if facts.price_ucurrency is not None else ""
    )


def checked_entry(lab: Lab, entry: Entry, now: int) -> Entry:
    """Return a valid entry. Raises InvalidInput with the field."""
    if entry.kind not in FIELDS_OF_KIND:
        raise InvalidInput(
            f"Unknown kind of event {entry.kind[:40]!r}.",
            field="kind",
            hint=f"Use {', '.join(FIELDS_OF_KIND)}.",
        )
    allowed_fields = FIELDS_OF_KIND[EventKind(entry.kind)]
    for name in (
        "embodied",
        "life_hours",
        "life_end_us",
        "amortisation",
        "project",
        "parent",
        "site",
        "counterpart",
        "parts",
        "end_of_life",
        "mass_g",
    ):
        if getattr(entry, name) and name not in allowed_fields:
            raise InvalidInput(
                f"An event {EventKind(entry.kind).label!r} has no {name}.",
                field=name,
                hint="Leave it empty.",
            )
    if not 0 <= hour_of(entry.at_us) < END_HOUR or entry.at_us > now + US_PER_HOUR:
        raise InvalidInput(
            "The date is in the future or before 1970.",
            field="at",
            hint="Choose a day up to today.",
        )
    for name, limit in (("counterpart", 200), ("evidence", 300), ("note", 500)):
        text = getattr(entry, name)
        if len(text) > limit or is_unstorable(text):
            raise InvalidInput(
                f"Invalid text {text[:40]!r}.",
                field=name,
                hint=f"Use at most {limit} characters, without NUL.",
            )
    for name in ("project", "parent", "site"):
        value = getattr(entry, name)
        if value is not None and value.lab_id != lab.pk:
            raise InvalidInput(f"No such {name} in this lab.", field=name)
    _check_meaning(entry)
    if entry.embodied is not None:
        _check_embodied(entry.embodied)
    return with_default_treatment(entry)


def with_default_treatment(entry: Entry) -> Entry:
    """Return a disposal with the emissions of its end of life.

    An entered value has precedence. Without a mass or a published factor it stays without one.
    """
    total_ug, source = default_emissions(entry.end_of_life, entry.mass_g)
    if entry.embodied is not None or total_ug is None:
        return entry
    return replace(entry, embodied=Embodied(total_ug, source=source))


def closing_entries(
    *,
    retired_us: int | None = None,
    ended_us: int | None = None,
    end_of_life: str = "",
    mass_g: int | None = None,
    counterpart: str = "",
    evidence: str = "",
    embodied: Embodied | None = None,
    note: str = "",
) -> tuple[Entry, ...]:
    """Return the events that end the life of an asset, for :class:`Draft`.

    For registers of hardware that is retired, sold or stolen already. ``retired_us``: it was taken
    out of use. ``ended_us``: it left the lab, as ``end_of_life`` (EndOfLife) says. ``embodied``:
    emissions of the end of life, None: the default. ``note``: of the last event.
    """
    entries = []
    if retired_us is not None:
        retired_note = note if ended_us is None else ""
        entries.append(Entry(EventKind.RETIRE, retired_us, note=retired_note))
    if ended_us is not None:
        entries.append(
            Entry(
                EventKind.DISPOSE,
                ended_us,
                embodied=embodied,
                counterpart=counterpart,
                evidence=evidence,
                note=note,
                end_of_life=end_of_life,
                mass_g=mass_g,
            )
        )
    elif end_of_life or mass_g is not None:
        raise InvalidInput(
            "An end of life needs a date.", field="at", hint="Enter the day, or leave both empty."
        )
    return tuple(entries)


def _check_meaning(entry: Entry) -> None:
    for name, choices in (("parts", PartsAction.values), ("end_of_life", EndOfLife.values)):
        value = getattr(entry, name)
        if value and value not in choices:
            raise InvalidInput(
                f"Unknown value {value[:40]!r}.", field=name, hint=f"Use {', '.join(choices)}."
            )
    if entry.mass_g is not None and not 0 < entry.mass_g <= MOST_MASS_G:
        raise InvalidInput(
            "Mass out of range.", field="mass", hint="Enter more than 0 and at most 10 000 kg."
        )
    if entry.amortisation and entry.amortisation not in Amortisation.values:
        raise InvalidInput("Unknown amortisation.", field="amortisation", hint="Use linear or sci.")
    if entry.kind in OPENING and not 0 < (entry.life_hours or 0) <= LONGEST_LIFE_HOURS:
        raise InvalidInput(
            "Invalid planned life.",
            field="life",
            hint="Enter more than 0 and at most 100 years. Four years are usual.",
        )
    if entry.kind == EventKind.LIFE_CHANGE and not (entry.life_end_us or entry.amortisation):
        raise InvalidInput(
            "No change.", field="life_end", hint="Enter a new planned end or another amortisation."
        )
    if entry.kind == EventKind.LEND and entry.project is None and not entry.counterpart:
        raise InvalidInput(
            "The borrower is missing.",
            field="project",
            hint="Choose a project, or enter a borrower outside the lab.",
        )


def _check_embodied(what: Embodied) -> None:
    if not 0 <= what.total_ug <= MOST_UG:
        raise InvalidInput(
            "Embodied carbon out of range.", field="embodied", hint="Enter 0 to 1 000 000 kg."
        )
    low, high = what.low_ug, what.high_ug
    if (low is not None and low > what.total_ug) or (high is not None and high < what.total_ug):
        raise InvalidInput(
            "The value is outside its own range.", field="embodied", hint="Use low ≤ value ≤ high."
        )
    parts = [
        part
        for part in (what.manufacture_ug, what.transport_ug, what.end_of_life_ug)
        if part is not None
    ]
    # Parts in the catalogue can be separate medians, which need not add up.
    if any(not 0 <= part <= what.total_ug for part in parts) or (
        what.figure is None and sum(parts) > what.total_ug
    ):
        raise InvalidInput(
            "The parts exceed the total.", field="embodied", hint="Leave unknown parts empty."
        )
    if what.end_of_life_ug is not None and not what.includes_end_of_life:
        raise InvalidInput(
            "A separate end of life is always part of the total.",
            field="embodied",
            hint="Set it to included, or leave the part empty.",
        )


def event_row(asset: Asset, entry: Entry, by: User | None, now: int) -> LifecycleEvent:
    what = entry.embodied
    columns = (
        {
            name: getattr(what, name)
            for name in (
                "total_ug",
                "low_ug",
                "high_ug",
                "manufacture_ug",
                "transport_ug",
                "end_of_life_ug",
                "includes_end_of_life",
                "figure",
                "source",
            )
        }
        if what
        else {}
    )
    return LifecycleEvent(
        asset=asset,
        kind=entry.kind,
        hour=hour_of(entry.at_us),
        life_hours=entry.life_hours,
        life_end_hour=None if entry.life_end_us is None else hour_of(entry.life_end_us),
        amortisation=entry.amortisation,
        project=entry.project,
        parent=entry.parent,
        site=entry.site,
        counterpart=entry.counterpart,
        evidence=entry.evidence,
        note=entry.note,
        end_of_life=entry.end_of_life,
        mass_g=entry.mass_g,
        recorded_us=now,
        recorded_by=by,
        **columns,
    )
