"""Form of the page Share a GPU. It is sent with GET: the URL is its state."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import QueryDict

from apps.core.units import PPM, US_PER_HOUR, US_PER_S
from apps.dashboard.forms import DecimalField, TextField
from apps.dashboard.planner.sizes import memory_size
from apps.planner.gpu_sharing.jobs import MAX_JOBS, SharedJob, Use
from apps.planner.gpu_sharing_selectors import MeasuredJob, SharingCard, user_key

ENTERED_ROWS = 4
_BYTES_PER_GIB = 2**30
_ROW = ("name", "memory", "use", "hours", "power")  # fields of a job entered by hand


class BoundedField(DecimalField):
    """A number between two bounds, with at most three decimals."""

    def __init__(self, least: str, most: str, example: str, **options: Any) -> None:
        within = f"Enter a number from {least} to {most}."
        messages = {
            "invalid": f"Enter a number, such as {example}.",
            "min_value": within,
            "max_value": within,
            "max_decimal_places": "Enter at most three decimals.",
        }
        super().__init__(
            required=False, decimal_places=3, min_value=Decimal(least), max_value=Decimal(most),
            error_messages=messages, **options,
        )  # fmt: skip


def _row_fields(number: int) -> dict[str, forms.Field]:
    """Return the fields of a job that is entered by hand."""
    return {
        f"name_{number}": TextField(label=f"Name of job {number}", required=False, max_length=60),
        f"memory_{number}": BoundedField("0.001", "10000", "3.5", label="Memory in GiB"),
        f"use_{number}": BoundedField("0", "100", "25", label="Utilization in %"),
        f"hours_{number}": BoundedField("0.001", "10000", "1.5", label="Hours alone"),
        f"power_{number}": BoundedField("0", "5000", "120", label="Power in W"),
    }


@dataclass(frozen=True)
class EnteredRow:
    """The bound fields of a job that is entered by hand."""

    number: int
    fields: Sequence[Any]


@dataclass(frozen=True)
class ChosenJob:
    """A job of a valid form. ``measured`` None: it was entered by hand."""

    name: str
    job: SharedJob
    measured: MeasuredJob | None = None


class SharingForm(forms.Form):
    """A card and the jobs that could share it."""

    card = forms.ChoiceField(
        label="Card",
        error_messages={
            "required": "Choose a card.",
            "invalid_choice": "No such card. Choose one of the list.",
        },
    )
    idle = BoundedField(
        "0.1", "1000", "50", label="Idle power in W", help_text="Empty: as the lab measured it"
    )
    run = forms.MultipleChoiceField(
        label="Jobs",
        required=False,
        error_messages={
            "invalid_choice": "No such measured run in this lab. Choose one of the list."
        },
    )

    def __init__(
        self,
        params: QueryDict,
        cards: Sequence[SharingCard],
        measured: Sequence[MeasuredJob],
        person_id: int,
    ) -> None:
        self._cards = {card.value: card for card in cards}
        self._measured = {str(each.uuid): each for each in measured}
        self._person_id = person_id
        rows = {
            name: field
            for number in range(1, ENTERED_ROWS + 1)
            for name, field in _row_fields(number).items()
        }
        is_sent = any(name in params for name in (*self.base_fields, *rows))
        initial = {"card": next(iter(self._cards), "")}
        self.params = params.copy()
        self.params.setdefault("card", initial["card"])
        super().__init__(
            self.params if is_sent else None,
            initial=initial,
            label_suffix="",
            use_required_attribute=False,
        )
        self.fields.update(rows)
        for field in ("card", "run"):
            choices = (
                _card_choices(cards) if field == "card" else [(key, key) for key in self._measured]
            )
            self.fields[field].choices = choices  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        for row in self.entered_rows:
            self._clean_row(row.number)
        if "run" not in self.errors:
            count = len(set(data["run"])) + len(self._entered())
            if not 2 <= count <= MAX_JOBS:
                self.add_error(
                    "run",
                    f"The comparison has {count} job{'' if count == 1 else 's'}. "
                    "Choose two to eight runs, or enter jobs by hand.",
                )
        card = self._cards.get(data.get("card", ""))
        if card and card.memory_bytes is None:
            self.add_error(
                "card", "The memory of this card is unknown. Add its model to the catalogue."
            )
        return data

    def _clean_row(self, number: int) -> None:
        if number not in self._entered():
            return
        for name, text in (
            ("memory", "Enter its peak memory."),
            ("use", "Enter its mean utilization."),
            ("hours", "Enter its hours alone on the card."),
        ):
            field = f"{name}_{number}"
            if self.cleaned_data.get(field) is None and field not in self.errors:
                self.add_error(field, text)

    def _entered(self) -> list[int]:
        """Return the numbers of the rows with any value."""
        return [
            number
            for number in range(1, ENTERED_ROWS + 1)
            if any(self.params.get(f"{name}_{number}", "").strip() for name in _ROW)
        ]

    @property
    def entered_rows(self) -> list[EnteredRow]:
        """Return the rows of jobs that are entered by hand."""
        return [
            EnteredRow(number, [self[f"{name}_{number}"] for name in _ROW])
            for number in range(1, ENTERED_ROWS + 1)
        ]

    @property
    def is_entered(self) -> bool:
        """Whether a job is entered by hand."""
        return self.is_bound and bool(self._entered())

    @property
    def chosen_keys(self) -> set[str]:
        """Return the chosen runs."""
        return set(self.params.getlist("run")) if self.is_bound else set()

    @property
    def chosen_card(self) -> SharingCard:
        """Return the card of a valid form."""
        return self._cards[self.cleaned_data["card"]]

    def chosen_jobs(self) -> list[ChosenJob]:
        """Return the jobs of a valid form: runs, newest first, then those entered by hand."""
        keys = set(self.cleaned_data["run"])
        runs = [
            ChosenJob(each.run.name, each.job, each)
            for key, each in self._measured.items()
            if key in keys
        ]
        return [*runs, *(self._entered_job(number) for number in self._entered())]

    def _entered_job(self, number: int) -> ChosenJob:
        data = self.cleaned_data
        duration_us = _whole(data[f"hours_{number}"] * US_PER_HOUR)
        use_ppm = _whole(data[f"use_{number}"] * PPM / 100)
        power = data[f"power_{number}"]
        job = SharedJob(
            key=f"job-{number}",
            user=user_key(self._person_id),
            memory_bytes=_whole(data[f"memory_{number}"] * _BYTES_PER_GIB),
            duration_us=duration_us,
            gpu_mj=None if power is None else _whole(power * 1000 * duration_us / US_PER_S),
            busy=Use(use_ppm, use_ppm),
        )
        return ChosenJob(data[f"name_{number}"] or f"Job {number}", job)

    def idle_mw(self) -> int | None:
        """Return the idle power of a valid form, None if it was not entered."""
        idle = self.cleaned_data["idle"]
        return None if idle is None else _whole(idle * 1000)

    @property
    def query(self) -> str:
        """Return the query of this form, without empty fields."""

        def pairs() -> Iterator[tuple[str, str]]:
            for name in self.fields:
                yield from ((name, text) for text in self.params.getlist(name) if text)

        return urlencode(list(pairs()))


def _whole(value: Decimal) -> int:
    return int(value.quantize(Decimal(1), rounding=ROUND_HALF_UP))


def _card_choices(cards: Sequence[SharingCard]) -> list[Any]:
    groups: dict[str, list[tuple[str, str]]] = {}
    for card in cards:
        group = "Lab" if card.node else "Cards with MIG" if card.mig else "Other cards"
        size = f" · {memory_size(card.memory_bytes)}" if card.memory_bytes else ""
        name = f"{card.node.name} · {card.name}" if card.node else card.name
        groups.setdefault(group, []).append((card.value, f"{name}{size}"))
    return list(groups.items())
