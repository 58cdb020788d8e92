"""Plans of sharing a card side by side: time, energy and slowdown of each."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from apps.core.units import PPM, THIN, Unit
from apps.dashboard.figures import Projected, estimated
from apps.dashboard.formatting import duration, unit_for
from apps.dashboard.planner.range_cells import RangeCell
from apps.dashboard.planner.sharing.cells import (
    energy_cell,
    exact_range,
    time_cell,
)
from apps.dashboard.planner.sharing.forms import ChosenJob
from apps.dashboard.planner.sharing.picture import COLOURS, Lane, alone_lanes, plan_lanes
from apps.dashboard.planner.sizes import memory_text
from apps.planner.gpu_sharing.jobs import (
    LeftOutReason,
    Range,
    SharedCard,
    SharedJob,
    is_memory_enough,
)
from apps.planner.gpu_sharing.plans import (
    SharedPlace,
    SharingMode,
    SharingPlan,
    Verdict,
    compare_sharing,
)
from apps.planner.gpu_sharing_selectors import SharingCard

TITLES = {
    SharingMode.MIG: "MIG slices",
    SharingMode.MPS: "MPS",
    SharingMode.TIME_SLICING: "Time slicing",
}
VERDICTS = {
    Verdict.GAIN: "Gain",
    Verdict.UNCERTAIN: "Uncertain",
    Verdict.NO_GAIN: "No gain",
    Verdict.DOES_NOT_FIT: "Not possible",
    Verdict.NO_SLICES: "No MIG",
    Verdict.UNKNOWN_SMS: "Unknown",
}
EXPLAINED = {
    Verdict.UNCERTAIN: "The likely saving is positive, the low end of its range is not.",
    Verdict.NO_GAIN: "The jobs fill the card: side by side they take as long, or longer.",
    Verdict.DOES_NOT_FIT: "No two of the jobs can run side by side.",
    Verdict.NO_SLICES: "The card has no MIG slices.",
    Verdict.UNKNOWN_SMS: "The number of SMs of its slices is unknown.",
}
REASONS = {
    LeftOutReason.DISTRIBUTED: "Runs on several GPUs",
    LeftOutReason.UNKNOWN_MEMORY: "Memory unknown",
    LeftOutReason.UNKNOWN_USE: "Utilization unknown",
    LeftOutReason.MEMORY: "Memory × 1.1 exceeds the card",
    LeftOutReason.OTHER_USER: "Of another user",
    LeftOutReason.NO_GAIN: "With it, less is saved",
    LeftOutReason.NO_PARTNER: "No other job fits beside it",
}
NO_SLICE = "Memory × 1.1 exceeds every slice"


@dataclass(frozen=True)
class JobRow:
    """A job of the comparison. ``number``: its number in the pictures."""

    number: int
    colour: str
    chosen: ChosenJob
    is_on_other_card: bool

    @property
    def memory(self) -> str:
        """Return its peak memory as text."""
        count = self.chosen.job.memory_bytes
        return "unknown" if count is None else memory_text(count)

    @property
    def use(self) -> str:
        """Return its mean utilization as text."""
        busy = self.chosen.job.busy
        return "unknown" if busy is None else _share_text(busy.mean_ppm)

    @property
    def time(self) -> str:
        """Return its time alone as text."""
        return duration(self.chosen.job.duration_us)

    @property
    def energy(self) -> Projected | None:
        """Return its energy on the GPU, None if it is unknown."""
        energy_mj = self.chosen.job.gpu_mj
        return None if energy_mj is None else estimated(energy_mj)


@dataclass(frozen=True)
class PlaceRow:
    """A job that shares the card. ``sm_count`` None: it has no slice."""

    row: JobRow
    place: SharedPlace
    sm_count: int | None
    card_sm_count: int | None

    @property
    def slowdown(self) -> str:
        """Return the likely slowdown as text."""
        return f"×{THIN}{_times(self.place.slowdown_ppm.likely)}"

    @property
    def range(self) -> str:
        """Return the range of the slowdown as text, '' if it is exact."""
        slowdown = self.place.slowdown_ppm
        if slowdown.low == slowdown.high:
            return ""
        return f"{_times(slowdown.low)}–{_times(slowdown.high)}"

    @property
    def time(self) -> str:
        """Return the likely time as text."""
        return duration(self.place.duration_us.likely)


@dataclass(frozen=True)
class LeftOutRow:
    """A job that does not share, with the reason in words. ``is_later``: it runs alone
    afterwards.
    """

    row: JobRow
    reason: LeftOutReason
    text: str
    is_later: bool


@dataclass(frozen=True)
class PlanCard:
    """A plan with its figures. Those of a plan without places are empty."""

    key: str
    title: str
    plan: SharingPlan
    cells: Sequence[RangeCell]
    places: Sequence[PlaceRow]
    left_out: Sequence[LeftOutRow]
    lanes: Sequence[Lane]
    is_best: bool = False

    @property
    def verdict_label(self) -> str:
        """Return the verdict in words."""
        return VERDICTS[self.plan.verdict]

    @property
    def explanation(self) -> str:
        """Return the verdict in a sentence, '' for a gain."""
        return EXPLAINED.get(self.plan.verdict, "")


@dataclass(frozen=True)
class SharingResult:
    """Jobs one after another, and a plan for each mode. ``idle_mw`` None: unknown."""

    card: SharingCard
    rows: Sequence[JobRow]
    alone: Sequence[RangeCell]
    alone_lanes: Sequence[Lane]
    uncounted: Sequence[LeftOutRow]
    plans: Sequence[PlanCard]
    idle_mw: Range | None
    is_idle_entered: bool

    @property
    def best(self) -> PlanCard | None:
        """Return the plan that saves most, None if none gains."""
        return next((plan for plan in self.plans if plan.is_best), None)

    @property
    def idle(self) -> str:
        """Return the idle power as text."""
        return "unknown" if self.idle_mw is None else f"{_watts(self.idle_mw.likely)} W"

    @property
    def idle_range(self) -> str:
        """Return the range of the idle power as text, '' if it is exact."""
        idle = self.idle_mw
        if idle is None or idle.low == idle.high:
            return ""
        return f"{_watts(idle.low)}–{_watts(idle.high)} W"

    @property
    def has_other_cards(self) -> bool:
        """Whether a run was measured on another card than this one."""
        return any(row.is_on_other_card for row in self.rows)


def sharing_result(
    card: SharingCard, chosen: Sequence[ChosenJob], idle_mw: Range | None, *, is_idle_entered: bool
) -> SharingResult:
    """Return the plans of jobs on a card."""
    assert card.memory_bytes is not None, "a valid form has a card with memory"
    rows = [
        JobRow(number, COLOURS[number - 1], each, _is_on_other_card(each, card))
        for number, each in enumerate(chosen, start=1)
    ]
    jobs = [each.job for each in chosen]
    memory_bytes = card.memory_bytes
    counted = [job for job in jobs if _can_run_alone(job, memory_bytes)]
    plans = compare_sharing(jobs, SharedCard(memory_bytes, idle_mw, card.mig))
    alone_us, alone_mj = sum(job.duration_us for job in counted), _sum_mj(counted)
    times = [alone_us, *(_time_us(plan, counted).likely for plan in plans if plan.shared_us)]
    whole_us = max(times)
    best = next(
        (plan.mode for plan in plans if plan.verdict in (Verdict.GAIN, Verdict.UNCERTAIN)), None
    )
    unit = unit_for("energy_mj", [alone_mj]) if alone_mj is not None else None
    return SharingResult(
        card=card,
        rows=rows,
        alone=[
            time_cell(Range(alone_us, alone_us, alone_us)),
            energy_cell("energy", "GPU energy", exact_range(alone_mj), unit, _NO_ENERGY),
        ],
        alone_lanes=alone_lanes(counted, _numbers(rows), whole_us),
        uncounted=[
            LeftOutRow(row, reason, REASONS[reason], is_later=False)
            for row in rows
            if (reason := _uncounted_reason(row.chosen.job, memory_bytes)) is not None
        ],
        plans=[
            _plan_card(plan, card, rows, counted, alone_mj, unit, whole_us, plan.mode == best)
            for plan in plans
        ],
        idle_mw=idle_mw,
        is_idle_entered=is_idle_entered,
    )


_NO_ENERGY = "The energy of a job is unknown."
_NO_IDLE = "The idle power of the card is unknown: enter it."


def _plan_card(
    plan: SharingPlan,
    card: SharingCard,
    rows: Sequence[JobRow],
    counted: Sequence[SharedJob],
    alone_mj: int | None,
    unit: Unit | None,
    whole_us: int,
    is_best: bool,
) -> PlanCard:
    by_key = {row.chosen.job.key: row for row in rows}
    profiles = {profile.name: profile.sm_count for profile in card.mig.profiles} if card.mig else {}
    card_sms = card.mig.sm_count if card.mig else None
    shared = {place.key for place in plan.places}
    later = [job for job in counted if job.key not in shared]
    later_keys = {job.key for job in later}
    cells: list[RangeCell] = []
    if plan.shared_us is not None:
        saved = plan.saved_mj
        energy = (
            Range(alone_mj - saved.high, alone_mj - saved.likely, alone_mj - saved.low)
            if alone_mj is not None and saved is not None
            else None
        )
        cells = [
            time_cell(_time_us(plan, counted)),
            energy_cell(
                "energy", "GPU energy", energy, unit, _NO_IDLE if saved is None else _NO_ENERGY
            ),
            energy_cell("saved", "Saved", saved, None, _NO_IDLE),
        ]
    return PlanCard(
        key=plan.mode.value,
        title=TITLES[plan.mode],
        plan=plan,
        cells=cells,
        places=[
            PlaceRow(by_key[place.key], place, profiles.get(place.profile), card_sms)
            for place in plan.places
        ],
        left_out=[
            LeftOutRow(
                by_key[each.key],
                each.reason,
                _reason_text(plan, each.reason),
                is_later=bool(plan.places) and each.key in later_keys,
            )
            for each in plan.left_out
        ],
        lanes=plan_lanes(
            plan,
            [row.chosen.job for row in rows],
            later,
            {name: PPM * count // card_sms for name, count in profiles.items() if count}
            if card_sms
            else {},
            _numbers(rows),
            whole_us,
        ),
        is_best=is_best,
    )


def _numbers(rows: Sequence[JobRow]) -> dict[str, int]:
    return {row.chosen.job.key: row.number for row in rows}


def _reason_text(plan: SharingPlan, reason: LeftOutReason) -> str:
    if reason is LeftOutReason.MEMORY and plan.mode is SharingMode.MIG:
        return NO_SLICE
    return REASONS[reason]


def _is_on_other_card(chosen: ChosenJob, card: SharingCard) -> bool:
    return chosen.measured is not None and any(
        not card.is_named(name) for name in chosen.measured.cards
    )


def _can_run_alone(job: SharedJob, memory_bytes: int) -> bool:
    return _uncounted_reason(job, memory_bytes) is None


def _uncounted_reason(job: SharedJob, memory_bytes: int) -> LeftOutReason | None:
    """Return why a job cannot run on the card at all."""
    if job.is_distributed:
        return LeftOutReason.DISTRIBUTED
    if job.memory_bytes is not None and not is_memory_enough(memory_bytes, job.memory_bytes):
        return LeftOutReason.MEMORY
    return None


def _time_us(plan: SharingPlan, counted: Iterable[SharedJob]) -> Range:
    """Return the time of a plan, with the jobs that run alone after it."""
    assert plan.shared_us is not None, "jobs share"
    shared = {place.key for place in plan.places}
    later_us = sum(job.duration_us for job in counted if job.key not in shared)
    each = plan.shared_us
    return Range(each.low + later_us, each.likely + later_us, each.high + later_us)


def _sum_mj(jobs: Sequence[SharedJob]) -> int | None:
    energies = [job.gpu_mj for job in jobs if job.gpu_mj is not None]
    return sum(energies) if len(energies) == len(jobs) else None


def _times(ppm: int) -> str:
    """Return a slowdown with two decimals, half up."""
    hundredths = (ppm * 100 + PPM // 2) // PPM
    return f"{hundredths // 100}.{hundredths % 100:02}"


def _share_text(ppm: int) -> str:
    """Return a share in whole percent, half up."""
    return f"{(ppm * 100 + PPM // 2) // PPM}{THIN}%"


def _watts(power_mw: int) -> str:
    return str((power_mw + 500) // 1000) if power_mw >= 10_000 else _tenths(power_mw)


def _tenths(power_mw: int) -> str:
    tenths = (power_mw + 50) // 100
    return f"{tenths // 10}.{tenths % 10}"
