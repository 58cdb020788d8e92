"""Content of the page Share a GPU."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.http import QueryDict

from apps.core.units import hour_of
from apps.dashboard.decorators import Visitor
from apps.dashboard.figures import Projected, estimated
from apps.dashboard.formatting import duration
from apps.dashboard.planner.sharing.forms import SharingForm
from apps.dashboard.planner.sharing.result import SharingResult, sharing_result
from apps.dashboard.planner.sizes import memory_text
from apps.planner.gpu_sharing.jobs import MAX_JOBS, Range
from apps.planner.gpu_sharing_selectors import (
    MeasuredJob,
    idle_power,
    measured_jobs,
    sharing_cards,
)

_MAX_TEXTS = 4 * MAX_JOBS  # of runs in an address that are looked up


@dataclass(frozen=True)
class CandidateRow:
    """A measured run that can be chosen."""

    measured: MeasuredJob
    is_chosen: bool

    @property
    def memory(self) -> str:
        """Return its peak memory as text, '' if it is unknown."""
        count = self.measured.job.memory_bytes
        return "" if count is None else memory_text(count)

    @property
    def use_percent(self) -> int | None:
        """Return its mean utilization in whole percent, half up; None if it is unknown."""
        busy = self.measured.job.busy
        return None if busy is None else (busy.mean_ppm + 5_000) // 10_000

    @property
    def time(self) -> str:
        """Return its duration as text."""
        return duration(self.measured.job.duration_us)

    @property
    def energy(self) -> Projected | None:
        """Return its energy on the GPU, None if it is unknown."""
        energy_mj = self.measured.job.gpu_mj
        return None if energy_mj is None else estimated(energy_mj)


@dataclass(frozen=True)
class SharingPage:
    """The page. ``result`` None: the form was not sent, or it has errors."""

    form: SharingForm
    candidates: Sequence[CandidateRow]
    result: SharingResult | None

    @property
    def status(self) -> int:
        """Return the HTTP status: 400 for a form with errors."""
        return 400 if self.form.is_bound and self.form.errors else 200

    @property
    def query(self) -> str:
        """Return the query of this page."""
        return self.form.query


def sharing_page(visitor: Visitor, params: QueryDict) -> SharingPage:
    """Return the page of a form that is sent with GET. The number of queries is constant."""
    measured = measured_jobs(visitor.lab, _uuids(params.getlist("run")))
    form = SharingForm(params, sharing_cards(visitor.lab), measured, visitor.user.pk)
    candidates = [CandidateRow(each, str(each.uuid) in form.chosen_keys) for each in measured]
    if not (form.is_bound and form.is_valid()):
        return SharingPage(form, candidates, None)
    card, entered_mw = form.chosen_card, form.idle_mw()
    if entered_mw is None:
        idle_mw = idle_power(visitor.lab, card, hour_of(visitor.now))
    else:
        idle_mw = Range(entered_mw, entered_mw, entered_mw)
    result = sharing_result(
        card, form.chosen_jobs(), idle_mw, is_idle_entered=entered_mw is not None
    )
    return SharingPage(form, candidates, result)


def _uuids(texts: Sequence[str]) -> set[UUID]:
    """Return the UUIDs in the address. The form refuses all other texts."""
    uuids = set()
    for text in texts[:_MAX_TEXTS]:
        try:
            uuids.add(UUID(text))
        except ValueError:
            continue
    return uuids
