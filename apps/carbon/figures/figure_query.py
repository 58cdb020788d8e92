"""Definition of a figure query. Pure."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import quote_plus

from apps.core.units import US_PER_HOUR

ENERGY_METRICS = ("energy_mj", "facility_energy_mj")
COST = "cost_ucurrency"  # millionths of one currency
USE_METRICS = (*ENERGY_METRICS, "emission_ug", COST)  # sums of the energy ledger
ALLOCATION, INVENTORY = (
    "embodied_ug",
    "embodied_inventory_ug",
)  # the two ledgers of hardware: never added to each other
HARDWARE_METRICS = (ALLOCATION, INVENTORY)
TOGETHER, TOGETHER_INVENTORY = "carbon_ug", "carbon_inventory_ug"  # emission_ug + one of the two
HARDWARE_OF = {TOGETHER: ALLOCATION, TOGETHER_INVENTORY: INVENTORY}
METRICS = (*USE_METRICS, *HARDWARE_METRICS, *HARDWARE_OF)
SUBJECTS = ("lab", "project", "person", "run", "runs", "node", "device", "asset")
MOST_RUNS = 50  # per query
QUALITIES = ("COUNTER", "SAMPLED", "MODELLED", "DECLARED")
USE_CONSUMERS = ("idle", "idle_share", "overhead", "system", "unattributed")
HARDWARE_CONSUMERS = (
    "used", "idle", "idle_share", "unmeasured", "held", "lent", "end_of_life", "written_off",
    "unattributed",
)  # fmt: skip
CONSUMERS = tuple(dict.fromkeys((*USE_CONSUMERS, *HARDWARE_CONSUMERS)))
ANY_WASTE = "any"
WASTES = ("duplicate", "failed", "idle", ANY_WASTE)
FILTERS = (
    "quality",
    "consumer",
    "waste",
    "project",
    "os_user",
    "program",
    "use",
    "scope",
    "currency",
)
HIDDEN = "-"
ANY = "*"  # currency of a query by price, whose groups have one each


@dataclass(frozen=True)
class FigureQuery:
    """Query of one figure: ``/explain/?metric&subject&from&to&accounting&basis[&quality]…``.

    ``subject_key`` is '' for the lab, else a project's slug, a person's number, the UUID of a run
    or node, UUIDs of runs separated by commas, a device key, or an asset's number. ``from_hour``
    and ``to_hour`` are whole UTC hours, half open.

    Filters: ``quality`` is one energy quality. ``consumer`` is unused energy (idle), node overhead
    (overhead), use by system processes that no project is charged for (system), or other use
    without a known project (unattributed). For hardware it is one kind of charge (idle, held,
    written_off, …). ``waste`` is one kind of energy that could have been saved: of
    duplicate runs, of failed runs that are no duplicates, of idle devices, or of any of them.
    ``project`` is one project. ``os_user`` and ``program`` are the user and program of a consumer.
    HIDDEN selects energy without such a name. ``use`` is one consumer key. ``scope`` is one scope
    or category of ``profile`` (2, 3, 3.1 …). ``currency`` is that of a cost: prices in another one
    are left out.
    """

    metric: str
    from_hour: int
    to_hour: int
    subject_kind: str = "lab"
    subject_key: str = ""
    accounting: str = "location"
    basis: str = "lifecycle"
    profile: str = "ghg_protocol"
    quality: str = ""
    consumer: str = ""
    project: str = ""
    os_user: str = ""
    program: str = ""
    use: str = ""
    scope: str = ""
    waste: str = ""
    currency: str = ""

    @property
    def subject(self) -> str:
        return (
            self.subject_kind
            if self.subject_kind == "lab"
            else f"{self.subject_kind}:{self.subject_key}"
        )

    @property
    def hours(self) -> tuple[int, int]:
        return self.from_hour, self.to_hour

    @property
    def personal(self) -> bool:
        """Return whether the query is about one person."""
        return (
            self.subject_kind == "person"
            or self.os_user not in ("", HIDDEN)
            or self.use.startswith(("proc:", "container:"))
        )

    def to_query_string(self) -> str:
        """Return the query string. It is the same on pages and in the API."""
        pairs = [
            ("metric", self.metric),
            ("subject", self.subject),
            ("from", iso_hour(self.from_hour)),
            ("to", iso_hour(self.to_hour)),
            ("accounting", self.accounting),
            ("basis", self.basis),
            ("profile", self.profile),
        ]
        pairs += [
            (name, getattr(self, name))
            for name in FILTERS
            if getattr(self, name) and (name != "currency" or self.metric == COST)
        ]
        return "&".join(f"{name}={_quoted(value)}" for name, value in pairs)

    def replace(self, **changes: str | int) -> "FigureQuery":
        """Return the same query with some parts changed."""
        return replace(self, **changes)  # type: ignore[arg-type]


@lru_cache(maxsize=10_000)
def _quoted(value: str) -> str:
    return quote_plus(value)


@lru_cache(maxsize=10_000)
def iso_hour(hour: int) -> str:
    """Return a whole UTC hour as ISO 8601."""
    return datetime.fromtimestamp(hour * 3600, tz=UTC).strftime("%Y-%m-%dT%H:%MZ")


def hours_of_us(from_us: int, to_us: int) -> tuple[int, int]:
    """Return the whole hours that overlap ``[from_us, to_us)``, half open."""
    return from_us // US_PER_HOUR, -(-to_us // US_PER_HOUR)
