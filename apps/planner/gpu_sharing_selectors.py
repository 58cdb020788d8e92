"""Reads for sharing a GPU: runs that were measured on a card, cards, and their idle power."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import Exists, F, OuterRef, Q

from apps.accounts.models import Lab
from apps.catalog.choices import HardwareKind
from apps.catalog.matching import match_key
from apps.catalog.mig_profiles import MigCard, select_mig_card
from apps.catalog.models import HardwareModel
from apps.catalog.selectors import mig_cards
from apps.core.sql import as_int, fetch_rows, placeholders
from apps.core.units import US_PER_HOUR, US_PER_S
from apps.energy.models import UtilizationHour
from apps.energy.utilization import Utilization, bins_from_text
from apps.fleet.choices import DeviceKind
from apps.fleet.models import Device, Node
from apps.planner.cards import BYTES_PER_MIB, LEAST_MARKET_MIB, node_cards
from apps.planner.gpu_sharing.jobs import Range, SharedJob, Use
from apps.planner.past_runs import EXCLUDED_INTENTS, measured_use
from apps.runs.choices import RunState
from apps.runs.models import Run

NEWEST_RUNS = 40
IDLE_HOURS = 90 * 24  # before now, in which a card is read without a job
_MAX_IDLE_HOURS = 2000
_MOST_SHARED_PERCENT = 5  # of the measured time, for a run that counts as alone on its card
_LEAST_MEASURED_PERCENT = 90  # of the run, for its energy to count
_OLDEST_YEAR = 2018  # MPS of Volta and later has protected memory
_PPM_PER_PM = 1000


@dataclass(frozen=True)
class MeasuredJob:
    """A finished run that was measured on GPUs. ``cards``: their names. ``is_shared``: others ran
    on its card, so that its own use and memory are unknown.
    """

    run: Run
    cards: tuple[str, ...]
    job: SharedJob
    is_shared: bool

    @property
    def uuid(self) -> UUID:
        """Return the UUID of the run."""
        return self.run.uuid


@dataclass(frozen=True)
class SharingCard:
    """A card to share. ``node`` None: of the catalogue. ``memory_bytes`` None: unknown."""

    name: str
    key: str
    memory_bytes: int | None
    mig: MigCard | None
    node: Node | None = None

    @property
    def value(self) -> str:
        """Return the value of the card in a form."""
        return f"{self.node.uuid if self.node else 'any'}.{self.key}"

    def is_named(self, name: str) -> bool:
        """Return whether a driver's name is one of this model."""
        is_same_mig = self.mig is not None and select_mig_card([self.mig], name) is not None
        return is_same_mig or match_key(name) == self.key


@dataclass
class _Parts:
    use: Utilization = field(default_factory=Utilization)
    devices: set[int] = field(default_factory=set)
    cards: set[str] = field(default_factory=set)


def measured_jobs(lab: Lab, chosen: Collection[UUID] = ()) -> list[MeasuredJob]:
    """Return the newest finished runs with measured utilization or memory of a whole GPU, and the
    chosen ones, newest first. Four queries.
    """
    hours = UtilizationHour.objects.filter(
        consumer__run_uuid=OuterRef("uuid"), consumer__lab=lab, device__kind=DeviceKind.GPU
    )
    measured = Run.objects.filter(
        Exists(hours), lab=lab, state=RunState.FINISHED, ended_us__gt=F("started_us")
    ).exclude(intent__in=EXCLUDED_INTENTS)
    order = ("-started_us", "-pk")
    newest = measured.order_by(*order).values("pk")[:NEWEST_RUNS]
    runs = list(
        measured.filter(
            Q(pk__in=list(newest.values_list("pk", flat=True))) | Q(uuid__in=list(chosen))
        ).order_by(*order)
    )
    parts = _utilization(lab, [run.uuid for run in runs])
    energy = measured_use(lab, [run.uuid for run in runs])
    return [
        _measured_job(
            run, parts[run.uuid], energy[run.uuid].gpu_energy_mj if run.uuid in energy else None
        )
        for run in runs
    ]


def _utilization(lab: Lab, uuids: Sequence[UUID]) -> dict[UUID, _Parts]:
    """Return the sums over the GPUs of each run. One query."""
    rows = UtilizationHour.objects.filter(
        consumer__lab=lab, consumer__run_uuid__in=uuids, device__kind=DeviceKind.GPU
    ).annotate(run_uuid=F("consumer__run_uuid"), card=F("device__name"))
    parts = {uuid: _Parts() for uuid in uuids}
    for row in rows:
        part = parts[row.run_uuid]
        part.devices.add(row.device_id)
        part.cards.add(row.card)
        part.use.add(
            Utilization(
                util_us=row.util_us,
                util_pm_us=row.util_pm_us,
                util_bins=bins_from_text(row.util_bins),
                mem_us=row.mem_us,
                mem_max_mib=row.mem_max_mib,
                shared_us=row.shared_us,
            )
        )
    return parts


def _measured_job(run: Run, parts: _Parts, gpu_mj: int | None) -> MeasuredJob:
    assert run.ended_us is not None, "only finished runs were read"
    use, duration_us = parts.use, run.ended_us - run.started_us
    measured_us = max(use.util_us, use.mem_us)
    is_shared = 100 * use.shared_us > _MOST_SHARED_PERCENT * measured_us
    is_measured = 100 * measured_us >= _LEAST_MEASURED_PERCENT * duration_us * len(parts.devices)
    return MeasuredJob(
        run,
        tuple(sorted(parts.cards)),
        SharedJob(
            key=str(run.uuid),
            user=_user(run),
            memory_bytes=None if is_shared else use.mem_max_mib * BYTES_PER_MIB or None,
            duration_us=duration_us,
            gpu_mj=gpu_mj if is_measured else None,
            busy=None if is_shared else _busy(use),
            is_distributed=len(parts.devices) > 1,
        ),
        is_shared,
    )


def _busy(use: Utilization) -> Use | None:
    p95_pm = use.util_p95_pm
    if p95_pm is None:
        return None
    mean_ppm = (2 * use.util_pm_us * _PPM_PER_PM + use.util_us) // (2 * use.util_us)
    return Use(mean_ppm, max(mean_ppm, p95_pm * _PPM_PER_PM))


def _user(run: Run) -> str:
    """Return whose run it is; a run of nobody known is of a user of its own."""
    person_id = run.user_id or run.charged_person_id
    return user_key(person_id) if person_id else f"os:{run.os_user or run.uuid}"


def user_key(person_id: int) -> str:
    """Return the key of a person of the lab."""
    return f"person:{person_id}"


def sharing_cards(lab: Lab) -> list[SharingCard]:
    """Return the cards of the lab's nodes, cards with MIG slices, and other cards of the catalogue.
    Four queries.
    """
    own = [_card(card.name, card.key, card.memory_bytes, card.node) for card in node_cards(lab)]
    divided = [_card(card.name, match_key(card.name), card.memory_bytes) for card in mig_cards()]
    models = HardwareModel.objects.filter(
        kind=HardwareKind.GPU, vendor="NVIDIA", lab__isnull=True, retired_us__isnull=True,
        release_year__gte=_OLDEST_YEAR, memory_mib__gte=LEAST_MARKET_MIB,
    ).exclude(name__icontains="Jetson")  # fmt: skip
    others = [
        _card(name, key, memory_mib * BYTES_PER_MIB)
        for name, key, memory_mib in models.order_by("name").values_list(
            "name", "match_key", "memory_mib"
        )
        if memory_mib is not None and select_mig_card(mig_cards(), name) is None
    ]
    return [*own, *divided, *others]


def _card(name: str, key: str, memory_bytes: int | None, node: Node | None = None) -> SharingCard:
    mig = select_mig_card(mig_cards(), name)
    return SharingCard(name, key, memory_bytes or (mig.memory_bytes if mig else None), mig, node)


def idle_power(lab: Lab, card: SharingCard, hour: int) -> Range | None:
    """Return the power in mW of the lab's cards of this model in hours without a job: 10th
    percentile, median and 90th percentile. None: there is no such hour. Two queries.
    """
    gpus = Device.objects.filter(lab=lab, kind=DeviceKind.GPU)
    devices = [pk for pk, name in gpus.values_list("pk", "name") if card.is_named(name)]
    if not devices:
        return None
    rows = fetch_rows(
        "SELECT e.energy_mj, h.covered_us FROM (SELECT l.device_id, l.node_id, l.hour, "
        "SUM(l.energy_mj) AS energy_mj, "
        "MAX(CASE WHEN c.kind <> 'idle' AND l.energy_mj > 0 THEN 1 ELSE 0 END) AS used "
        "FROM energy_ledgerentry l JOIN ingest_consumer c ON c.id = l.consumer_id "
        f"WHERE l.device_id IN ({placeholders(devices)}) AND l.hour >= %s AND l.hour < %s "
        "GROUP BY l.device_id, l.node_id, l.hour) e "
        "JOIN energy_devicehour h ON h.device_id = e.device_id AND h.node_id = e.node_id "
        "AND h.hour = e.hour WHERE e.used = 0 AND h.covered_us >= %s "
        "ORDER BY e.hour DESC, e.device_id LIMIT %s",
        [*devices, hour - IDLE_HOURS, hour, US_PER_HOUR // 2, _MAX_IDLE_HOURS],
    )
    powers = sorted(
        (2 * as_int(row["energy_mj"]) * US_PER_S + row["covered_us"]) // (2 * row["covered_us"])
        for row in rows
    )
    if not powers:
        return None
    tenth = (len(powers) - 1) // 10
    return Range(powers[tenth], powers[len(powers) // 2], powers[-1 - tenth])
