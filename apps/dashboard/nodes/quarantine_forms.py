"""Forms of quarantined windows and of devices that moved."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django import forms

from apps.core.errors import InvalidInput
from apps.core.units import US_PER_S
from apps.dashboard.decorators import MANAGERS, Visitor
from apps.dashboard.forms import PageForm, TextField
from apps.dashboard.nodes.quarantine_pages import energy_of
from apps.ingest.choices import MoveRule
from apps.ingest.models import QuarantinedWindow
from apps.ingest.services.decisions import (
    MAX_REASON,
    MAX_ROWS,
    Outcome,
    accept_windows,
    default_time,
    discard_windows,
    undo_decision,
)
from apps.ingest.services.moves import accept_move

ACCEPT, DISCARD = "accept", "discard"
DECISIONS = [(ACCEPT, "Accept"), (DISCARD, "Discard")]
TIME_FORMATS = ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M"]


def _reason_field() -> TextField:
    return TextField(
        label="Reason",
        max_length=MAX_REASON,
        error_messages={"required": "Enter a reason. It is stored with the windows."},
    )


def _text_of(outcome: Outcome, decision: str) -> str:
    done = "accepted" if decision == ACCEPT else "discarded"
    windows = f"{outcome.windows} window{'' if outcome.windows == 1 else 's'}"
    text = f"{windows} {done}, {energy_of(outcome.energy_mj).text}."
    if outcome.problems:
        first = next(iter(outcome.problems.values()))
        text += f" {len(outcome.problems)} cannot be accepted: {first}"
    return text


class DecisionForm(PageForm):
    """Accept or discard the selected windows, each at its default time."""

    roles = MANAGERS
    action = "decide"
    decision = forms.ChoiceField(choices=DECISIONS)
    windows = forms.TypedMultipleChoiceField(
        label="Windows",
        coerce=int,
        error_messages={
            "required": "Select at least one window.",
            "invalid_choice": "A selected window does not exist. Reload the page.",
        },
    )
    reason = _reason_field()

    def clean_windows(self) -> list[int]:
        return list(self.cleaned_data["windows"])[: MAX_ROWS + 1]

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type]
        rows = QuarantinedWindow.objects.filter(node__lab=self.visitor.lab)
        chosen = [
            value
            for value in (self.data.getlist("windows") if hasattr(self.data, "getlist") else [])
            if value.isascii() and value.isdecimal() and len(value) < 19
        ][: MAX_ROWS + 1]
        known = rows.filter(pk__in=chosen).values_list("pk", flat=True)
        self.fields["windows"].choices = [(pk, str(pk)) for pk in known]  # type: ignore[attr-defined]

    def save(self) -> str:
        decision = self.cleaned_data["decision"]
        decide = accept_windows if decision == ACCEPT else discard_windows
        outcome = decide(
            lab=self.visitor.lab,
            pks=self.cleaned_data["windows"],
            reason=self.cleaned_data["reason"],
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return _text_of(outcome, decision)


def time_of(time_us: int, zone: ZoneInfo) -> datetime:
    """Return a time for the time fields: of the zone, without its offset."""
    return datetime.fromtimestamp(time_us // US_PER_S, tz=zone).replace(tzinfo=None)


class TimeFields(forms.Form):
    """Fields for the start and end of a window, in the lab's time zone."""

    start = forms.DateTimeField(
        label="Start",
        required=False,
        input_formats=TIME_FORMATS,
        widget=forms.DateTimeInput({"type": "datetime-local", "step": "1"}, TIME_FORMATS[0]),
        error_messages={"invalid": "Enter a time as 2026-01-31T14:00:00."},
    )
    end = forms.DateTimeField(
        label="End",
        required=False,
        input_formats=TIME_FORMATS,
        widget=forms.DateTimeInput({"type": "datetime-local", "step": "1"}, TIME_FORMATS[0]),
        error_messages={"invalid": "Enter a time as 2026-01-31T14:00:00."},
    )
    row: QuarantinedWindow
    visitor: Visitor

    def clean(self) -> dict[str, Any]:
        for name, other in (("start", "end"), ("end", "start")):
            if self.cleaned_data.get(name) and not self.data.get(other):
                self.add_error(other, "Enter both times, or none.")
        return super().clean() or self.cleaned_data

    def times(self) -> tuple[int, int] | None:
        """Return the chosen time in µs, None for the default one (fields show whole seconds).

        Invalid fields count as not filled in.
        """
        self.is_valid()
        chosen = tuple(
            int(self.cleaned_data[name].replace(tzinfo=self.visitor.zone).timestamp()) * US_PER_S
            for name in ("start", "end")
            if self.cleaned_data.get(name)
        )
        if len(chosen) != 2 or chosen == tuple(
            us // US_PER_S * US_PER_S for us in default_time(self.row)
        ):
            return None
        return chosen


class PlacementForm(PageForm, TimeFields):
    """Accept one window at a chosen time, or discard it."""

    roles = MANAGERS
    action = "decide"
    decision = forms.ChoiceField(choices=DECISIONS, required=False)
    reason = _reason_field()
    field_order = ("start", "end", "reason")

    def save(self) -> str:
        decision = self.cleaned_data["decision"] or ACCEPT
        options = {
            "lab": self.visitor.lab,
            "pks": [self.row.pk],
            "reason": self.cleaned_data["reason"],
            "by": self.visitor.user,
            "now": self.visitor.now,
        }
        if decision == DISCARD:
            return _text_of(discard_windows(**options), decision)
        outcome = accept_windows(**options, time=self.times())
        for problem in outcome.problems.values():
            raise InvalidInput(problem, field="start")
        return _text_of(outcome, decision)


class TimePreviewForm(PageForm, TimeFields):
    """Show what is counted in a chosen time."""

    action = "preview"


class UndoDecisionForm(PageForm):
    """Undo the decision about one window."""

    roles = MANAGERS
    action = "undo"
    row: QuarantinedWindow

    def save(self) -> str:
        undo_decision(
            lab=self.visitor.lab, pk=self.row.pk, by=self.visitor.user, now=self.visitor.now
        )
        return "Decision undone. The window is quarantined again."


class AcceptMoveForm(PageForm):
    """Accept the move of a device to the node that reports it."""

    roles = MANAGERS
    move_id: int

    def save(self) -> str:
        accept_move(
            lab=self.visitor.lab,
            move_id=self.move_id,
            rule=MoveRule.MANAGER,
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return "Move accepted. Its windows are counted in the background."
