"""How often to write a checkpoint: fields and result of the page Planner."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.core.validators import MaxValueValidator

from apps.accounts.models import Lab
from apps.core.units import PPM, THIN, US_PER_HOUR, US_PER_S
from apps.dashboard.figures import Projected, estimated
from apps.dashboard.formatting import duration, percent
from apps.dashboard.planner.forms import WholeNumberField
from apps.dashboard.planner.place_choices import place_value
from apps.planner.cards import NodeCard
from apps.planner.formulas.checkpoint_interval import Checkpoints, plan_checkpoints
from apps.planner.services import ComputedEstimate
from apps.planner.what_ifs.failures import PastFailures, past_failures

MAX_WRITE_S = 86_400
MAX_BETWEEN_H = 1_000_000
_OF_PAGE = {"form": "plan-form"}  # the form of the page sends these fields too


class CheckpointForm(forms.Form):
    """Time to write a checkpoint, and mean time between failures if the lab's own is not used."""

    checkpoint_s = WholeNumberField(
        label="Seconds per checkpoint",
        required=False,
        help_text="Time to write one",
        widget=forms.TextInput(_OF_PAGE),
        validators=[MaxValueValidator(MAX_WRITE_S, "Enter at most 86400 seconds, a day.")],
    )
    between_h = WholeNumberField(
        label="Hours between failures",
        required=False,
        widget=forms.TextInput(_OF_PAGE),
        validators=[MaxValueValidator(MAX_BETWEEN_H, "Enter at most 1000000 hours.")],
    )

    def __init__(self, params: Mapping[str, Any]) -> None:
        given = {name: params[name] for name in self.base_fields if name in params}
        super().__init__(given, label_suffix="", use_required_attribute=False)

    @property
    def query(self) -> str:
        """Return the fields that are filled in as a query."""
        return urlencode({name: self.data[name] for name in self.fields if self.data.get(name)})


@dataclass(frozen=True)
class CheckpointCard:
    """The interval between checkpoints. ``result`` None: a field is missing. ``past``: runs of the
    kind of node; None: the place is no node of the lab. ``is_own``: the time between failures is
    that of ``past``.
    """

    form: CheckpointForm
    card: str
    past: PastFailures | None
    is_own: bool
    result: Checkpoints | None
    between_us: int | None
    energy: Projected | None = None
    is_longer: bool = False  # than the training

    @property
    def interval(self) -> str:
        """Return the interval as text."""
        return duration(self.result.interval_us) if self.result else ""

    @property
    def loss(self) -> str:
        """Return the mean loss at a failure as text."""
        return duration(self.result.loss_us) if self.result else ""

    @property
    def overhead(self) -> str:
        """Return the share of the time for writing and lost work."""
        return f"{percent(self.result.overhead_ppm, PPM)}{THIN}%" if self.result else ""

    @property
    def between(self) -> str:
        """Return the mean time between failures as text."""
        return duration(self.between_us) if self.between_us else ""

    @property
    def past_time(self) -> str:
        """Return the time of the past runs as text."""
        return duration(self.past.run_us) if self.past else ""


def checkpoint_card(
    lab: Lab,
    form: CheckpointForm,
    place: str,
    cards: Sequence[NodeCard],
    computed: ComputedEstimate | None,
    now: int,
) -> CheckpointCard:
    """Return the interval for a place of the planner's form."""
    selected = next((card for card in cards if place_value(card) == place), None)
    nodes = {card.node.pk for card in cards if selected and card.key == selected.key}
    past = past_failures(lab, nodes, now)
    stated = form.cleaned_data.get("between_h") if form.is_valid() else None
    write_s = form.cleaned_data.get("checkpoint_s") if form.is_valid() else None
    between_us = stated * US_PER_HOUR if stated else past.between_us
    name = selected.name if selected else ""
    card = CheckpointCard(form, name, past if selected else None, not stated, None, between_us)
    if not write_s or not between_us:
        return card
    figures = computed.figures if computed else None
    time_us = figures.time_us.likely if figures else None
    result = plan_checkpoints(write_s * US_PER_S, between_us, time_us)
    energy_mj = figures.node_energy_mj if figures else None
    return CheckpointCard(
        form,
        name,
        card.past,
        card.is_own,
        result,
        between_us,
        estimated(result.share_of(energy_mj.likely)) if energy_mj else None,
        time_us is not None and result.interval_us >= time_us,
    )


Line = tuple[str, str, int | None, str, str, str, int | None]


def checkpoint_lines(card: CheckpointCard | None) -> Iterator[Line]:
    """Yield the interval for the CSV of the result."""
    result = card.result if card else None
    if card is None or result is None:
        return
    rows = (
        ("between_failures", card.between_us, "us"),
        ("interval", result.interval_us, "us"),
        ("lost_work", result.loss_us, "us"),
        ("overhead", result.overhead_ppm, "ppm"),
        ("failures", result.failures_ppm, "ppm"),
    )
    for name, value, unit in rows:
        yield "checkpoints", name, value, unit, "", "", None
