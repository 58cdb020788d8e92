"""Cells about the life of an asset: purchase or lease, first use, end of use, end of life."""

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from apps.assets.choices import EndOfLife, EventKind
from apps.assets.services.validation import MOST_MASS_G, Embodied, Entry, closing_entries
from apps.assets.spreadsheets import cells
from apps.assets.spreadsheets.endings import (
    Ending,
    ending_of,
    is_ending,
    is_lease,
    state_of,
    stated_ending,
)
from apps.core.errors import InvalidInput

_ENDS = ("ended_on", "retired_on", "disposed_on")
_LEASE_CELLS = ("lessor", "lease_start", "lease_end")
_MASS_UNITS = {"mass_kg": "kg", "mass_g": "g"}
_LEASED_HINT = "Write yes or no."


@dataclass(frozen=True)
class Remark:
    """What is odd about a line that can be registered."""

    code: str
    text: str


@dataclass(frozen=True)
class Acquisition:
    """How the lab got an asset. ``lessor``: of a lease."""

    kind: EventKind
    at_us: int
    lessor: str = ""


def is_over(row: dict[str, str]) -> bool:
    """Return whether the life of a line has ended, by its words."""
    return state_of(row.get("status", "")) == "over" or is_ending(row.get("end_of_life", ""))


def has_end_date(row: dict[str, str]) -> bool:
    return any(row.get(field) for field in (*_ENDS, "lease_end"))


class LifeCells:
    """Reads the life of the lines of one file.

    ``bought_on``: for lines without a date. ``foreign``: the file is not in our columns. ``now``: a
    lease that ends later has not ended.
    """

    def __init__(
        self,
        zone: ZoneInfo,
        *,
        bought_on: str,
        date_order: str,
        decimal: str,
        foreign: bool,
        now: int,
    ) -> None:
        self._zone, self._now, self._foreign = zone, now, foreign
        self._bought_on, self._date_order, self._decimal = bought_on, date_order, decimal

    def acquisition(self, row: dict[str, str]) -> Acquisition:
        """Return how and when the lab got the asset. Raises InvalidInput naming the field."""
        is_used = cells.yes_no(row.get("second_hand", ""), "second_hand")
        if not self._is_leased(row):
            kind = EventKind.SECOND_HAND if is_used else EventKind.PURCHASE
            return Acquisition(kind, self._bought_us(row))
        if is_used:
            raise InvalidInput(
                "An asset is either leased or purchased second-hand.",
                field="leased",
                hint="Correct leased or second_hand.",
            )
        start = row.get("lease_start", "")
        at_us = self._moment(start, "lease_start") if start else self._bought_us(row)
        return Acquisition(EventKind.LEASE, at_us, row.get("lessor", ""))

    def _is_leased(self, row: dict[str, str]) -> bool:
        text = row.get("leased", "")
        by_word = is_lease(text) if text else None
        try:
            stated = cells.yes_no(text, "leased") if by_word is None else by_word
        except InvalidInput as error:
            error.hint = _LEASED_HINT
            raise
        named = next((field for field in _LEASE_CELLS if row.get(field)), "")
        if named and stated is False:
            raise InvalidInput(
                f"The asset is not leased, but has {named}.",
                field=named,
                hint="Write yes in leased, or empty this cell.",
            )
        return bool(stated or named)

    def _bought_us(self, row: dict[str, str]) -> int:
        text = row.get("bought_on") or self._bought_on
        if not text:
            hint = "Fill in the column, or upload the file with a purchase date for all other rows."
            raise InvalidInput("The purchase date is missing.", field="bought_on", hint=hint)
        return self._moment(text, "bought_on")

    def _moment(self, text: str, field: str) -> int:
        return cells.moment_us(text, field, self._zone, self._date_order)

    def first_use_us(self, row: dict[str, str], bought_us: int) -> int | None:
        """Return the first use, None for an asset in stock."""
        text = row.get("in_use_since", "")
        if text:
            return self._moment(text, "in_use_since")
        has_ended = bool(self._foreign and (is_over(row) or self._returned_us(row) is not None))
        is_used = self._foreign and state_of(row.get("status", "")) == "use"
        return bought_us if has_ended or is_used else None

    def closing(self, row: dict[str, str]) -> tuple[Entry, ...]:
        """Return the events that end the life. A date without a kind is the end of use."""
        by_status = ending_of(row.get("status", ""))
        stated = stated_ending(row.get("end_of_life", ""))
        ending = stated or by_status
        if stated and by_status and by_status.end_of_life not in {"", stated.end_of_life}:
            raise InvalidInput(
                f"The end of life is {row['end_of_life'][:40]!r}, the status "
                f"{row['status'][:40]!r}.",
                field="end_of_life",
                hint="Correct one of both.",
            )
        end_of_life = ending.end_of_life if ending else ""
        is_disposal = ending is not None and ending.event == EventKind.DISPOSE
        ended_us, retired_us, disposed_us = (
            self._moment(row[field], field) if row.get(field) else None for field in _ENDS
        )
        if disposed_us is None and is_disposal:
            ended_us, disposed_us = None, ended_us
        if retired_us is None:
            retired_us = ended_us
        if disposed_us is None and end_of_life in {"", EndOfLife.LEASE_RETURNED}:
            disposed_us = self._returned_us(row)
            end_of_life = end_of_life if disposed_us is None else EndOfLife.LEASE_RETURNED
        note = f"Status: {row['status'][:60]}" if row.get("status") else ""
        if disposed_us is None:
            self._check_no_ending(row, stated)
            return closing_entries(retired_us=retired_us, note=note)
        return closing_entries(
            retired_us=retired_us,
            ended_us=disposed_us,
            end_of_life=end_of_life,
            mass_g=self._mass_g(row),
            counterpart=row.get("recipient", ""),
            embodied=self._emissions(row),
            note=note,
        )

    def _returned_us(self, row: dict[str, str]) -> int | None:
        """Return when a lease ended, None if it did not, or goes on by its status."""
        text, status = row.get("lease_end", ""), row.get("status", "")
        if not text or (status and state_of(status) != "over"):
            return None
        end_us = self._moment(text, "lease_end")
        return end_us if end_us <= self._now else None

    def _check_no_ending(self, row: dict[str, str], stated: Ending | None) -> None:
        """Refuse an end of life without a date. Files in other columns contain the mass of any
        asset, which is not stored before its end.
        """
        names = ("end_of_life", "mass_kg", "recipient", "end_of_life_kg", "end_of_life_source")
        name = next((name for name in names if row.get(name)), "")
        is_disposal = stated is not None and stated.event == EventKind.DISPOSE
        if is_disposal or (name and not self._foreign):
            raise InvalidInput(
                "An end of life needs a date.",
                field="disposed_on",
                hint=f"Fill in disposed_on, or empty {name}.",
            )

    def _mass_g(self, row: dict[str, str]) -> int | None:
        field = next((field for field in _MASS_UNITS if row.get(field)), "")
        if not field:
            return None
        mass_g = cells.mass_g_of(
            row[field],
            field,
            strict=not self._foreign,
            unit=_MASS_UNITS[field],
            decimal=self._decimal,
        )
        if mass_g > MOST_MASS_G:
            raise InvalidInput(
                "Mass out of range.", field=field, hint="Enter more than 0 and at most 10 000 kg."
            )
        return mass_g

    def _emissions(self, row: dict[str, str]) -> Embodied | None:
        """Return the stated emissions of the end of life."""
        text, source = row.get("end_of_life_kg", ""), row.get("end_of_life_source", "")
        if not text and source:
            raise InvalidInput(
                "A source needs an amount.",
                field="end_of_life_kg",
                hint="Fill in end_of_life_kg, or empty end_of_life_source.",
            )
        return Embodied(cells.ug_of(text, "end_of_life_kg"), source=source[:500]) if text else None

    def remarks(self, row: dict[str, str], entries: tuple[Entry, ...]) -> list[Remark]:
        """Return what is odd about the life of a line."""
        status, remarks = row.get("status", ""), []
        if entries:
            why = row.get("end_of_life") or status or ("lease" if row.get("lease_end") else "")
            text = f"its life has ended: {why[:40]}" if why else "its life has ended"
            remarks.append(Remark("ended", text))
        elif self._foreign and state_of(status) == "unknown":
            remarks.append(Remark("status", f"unknown status {status[:40]!r}: in stock"))
        is_returned = any(entry.end_of_life == EndOfLife.LEASE_RETURNED for entry in entries)
        if row.get("lease_end") and not is_returned:
            text = f"its lease ends on {row['lease_end'][:20]}: record the return when it happens"
            remarks.append(Remark("lease", text))
        return remarks
