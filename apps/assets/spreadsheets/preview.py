"""Preview the registration of a file: each line is new, known, left out, or wrong. Read-only."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice

from django.db.models import Q

from apps.accounts.models import Lab
from apps.assets.choices import AssetState
from apps.assets.models import Asset
from apps.assets.services.register import drafted_rows
from apps.assets.services.register_changes import (
    BATCH,
    RegisteredAssets,
    RegisterUpdate,
    compare,
    last_values,
)
from apps.assets.services.register_values import (
    Values,
    figure_cells,
    values_of_draft,
    with_product,
)
from apps.assets.services.validation import Draft
from apps.assets.spreadsheets.catalog_match import Known
from apps.assets.spreadsheets.csv_reader import MAX_ROWS, Line, read_lines
from apps.assets.spreadsheets.formats import Header
from apps.assets.spreadsheets.life_cells import Remark, has_end_date, is_over
from apps.assets.spreadsheets.quantities import extra_things, is_several, things_of
from apps.assets.spreadsheets.rows import Drafter, Options
from apps.core.clock import utc
from apps.core.errors import InvalidInput, LabCarbonError, TooLarge
from apps.core.units import US_PER_HOUR

ITEMS = "items"  # value of a thing of a line that stands for several
EXISTING = ~Q(state=AssetState.DISPOSED)
NEW, KNOWN, CHANGED, LEFT_OUT, WRONG = "new", "known", "changed", "left_out", "wrong"


@dataclass(frozen=True)
class Row:
    """Result of a line.

    ``item`` of ``items``: one of several things of the line, 0 if it has one. ``parent_line``: line
    of the machine that contains it. ``unmarked``: it has neither tag nor serial, so a second import
    would not recognise it.
    """

    line: int
    outcome: str
    name: str
    draft: Draft | None = None
    known: Known | None = None
    parent_line: int | None = None
    asset_id: int | None = None
    message: str = ""
    field: str = ""
    hint: str = ""
    elsewhere: str = ""
    values: Values | None = None
    update: RegisterUpdate | None = None
    item: int = 0
    items: int = 1
    remarks: tuple[Remark, ...] = ()
    capacity_gb: int | None = None
    state: str = ""

    @property
    def unmarked(self) -> bool:
        return (
            self.outcome == NEW
            and self.draft is not None
            and not (self.draft.facts.tag or self.draft.facts.serial)
        )


@dataclass(frozen=True)
class Ref:
    """A machine that a file names as parent: a line of the file, or an asset of the lab."""

    line: int | None = None
    asset_id: int | None = None


class Reading:
    """One file, read for one lab at one time."""

    def __init__(self, lab: Lab, text: str, options: Options, now: int) -> None:
        self._lab, self._text, self._options, self._now = lab, text, options, now
        self.header: Header = self._read()[0]
        self._drafter = Drafter(lab, options, self.header, now)
        self._tags: dict[str, int] = dict(
            Asset.objects.filter(lab=lab).exclude(tag="").values_list("tag", "pk")
        )
        self._serials: dict[str, int] = dict(
            Asset.objects.filter(lab=lab).exclude(serial="").values_list("serial", "pk")
        )
        self._values = last_values(lab)
        self._items = {  # things of a line of an earlier import
            tag: pk for tag, pk in self._tags.items() if ITEMS in self._values.get(pk, {})
        }
        self._registered = RegisteredAssets()
        self._lines_by_key: dict[tuple[str, str], int] = {}
        self._named: dict[str, list[int]] = {}
        self._parents: dict[str, Asset | None] = {}
        self._multiple: set[int] = set()  # named lines that are several things
        if "parent" in self.header.fields:
            self._name_lines()

    def rows(self) -> Iterator[Row]:
        """Yield the result of each thing. Raises InvalidInput for an error of the whole file."""
        number = 0
        lines = self._read()[1]
        while part := list(islice(lines, BATCH)):
            known = [self._asset_id(line.cells) for line in part]
            self._registered.expect([asset_id for asset_id in known if asset_id is not None])
            for row in chain.from_iterable(map(self._line_rows, part)):
                number += 1
                if number > MAX_ROWS:
                    raise TooLarge(
                        f"The file has more than {MAX_ROWS} assets.", field="file", hint="Split it."
                    )
                yield row

    def _asset_id(self, cells: dict[str, str]) -> int | None:
        """Return the registered asset that a line names by its tag or serial number."""
        return self._tags.get(cells.get("tag", "")) or self._serials.get(cells.get("serial", ""))

    def _read(self) -> tuple[Header, Iterator[Line]]:
        return read_lines(self._text, self._options.columns, self._options.separator)

    def _name_lines(self) -> None:
        """Index the lines that can be parents: by tag, or by a name that only one line has."""
        for line in self._read()[1]:
            for text in {line.cells.get("tag", ""), line.cells.get("name", "")} - {""}:
                self._named.setdefault(text, []).append(line.number)
            if self.header.foreign and is_several(line):
                self._multiple.add(line.number)

    def _line_rows(self, line: Line) -> Iterator[Row]:
        """Yield a row for each thing of a line."""
        try:
            things = self._things(line)
        except InvalidInput as error:
            yield Row(
                line.number, WRONG, _name_of(line.cells), message=error.message,
                field=error.field or "", hint=error.hint,
            )  # fmt: skip
            return
        if not things:
            yield Row(
                line.number, LEFT_OUT, _name_of(line.cells), message="skipped: its quantity is 0"
            )
        for item, thing in enumerate(things, start=1):
            row = self._row(thing)
            if len(things) == 1:
                yield row
                continue
            remarks = row.remarks
            if row.outcome == NEW:
                remarks = (Remark("quantity", f"{len(things)} of one line"), *remarks)
            name = row.name.removesuffix(f" {item}")
            yield replace(
                row,
                name=name,
                item=item,
                items=len(things),
                remarks=remarks,
                values=row.values and {**row.values, ITEMS: str(len(things))},
                update=row.update and row.update.with_value(ITEMS, str(len(things))),
            )

    def _things(self, line: Line) -> list[Line]:
        """Return a line for each thing of a line. Raises InvalidInput for a wrong quantity."""
        if not self.header.foreign or line.wrong:
            return [line]
        things = things_of(line)
        tag = line.cells.get("tag", "")
        if tag and things:
            self._check_quantity(tag, things)
        return things

    def _check_quantity(self, tag: str, things: list[Line]) -> None:
        """Raise InvalidInput if the register has the things of a line as another number of assets,
        so that they would be counted twice.
        """
        number = len(things)
        if number > 1 and tag in self._tags:
            if all(thing.cells["tag"] in self._tags for thing in things):
                return
            raise InvalidInput(
                f"The quantity is {number}, but {tag[:60]} is registered as one asset.",
                field="quantity",
                hint="Write the other ones on a line of their own, with another number.",
            )
        if number == 1 and tag in self._tags:
            return
        extra = extra_things(tag, number, self._items)
        if extra and Asset.objects.filter(EXISTING, pk__in=extra.values()).exists():
            raise InvalidInput(
                f"The quantity is {number}, but {', '.join(list(extra)[:5])} are registered too.",
                field="quantity",
                hint="Record the disposal of those that left, or remove them.",
            )

    def _row(self, line: Line) -> Row:
        cells, name = line.cells, _name_of(line.cells)
        if line.wrong:
            return Row(
                line.number, WRONG, name, message=line.wrong, hint="Save the file as CSV again."
            )
        if self.header.foreign and not name:
            message = "skipped: it has no name, model, inventory number or serial number"
            return Row(line.number, LEFT_OUT, name, message=message)
        asset_id = self._asset_id(cells)
        if asset_id is not None:
            return self._known(line, name, asset_id)
        if self.header.foreign and is_over(cells) and not has_end_date(cells):
            return Row(line.number, LEFT_OUT, name, message=_without_date(cells))
        twice = self._twice(line)
        if twice:
            return Row(
                line.number, WRONG, name, message=twice, field="tag", hint="Use one line per asset."
            )
        try:
            return self._drafted(line, name)
        except LabCarbonError as error:
            return Row(
                line.number,
                WRONG,
                name,
                message=error.message,
                field=error.field or "",
                hint=error.hint,
            )

    def _known(self, line: Line, name: str, asset_id: int) -> Row:
        """Return the result of a line of a registered asset: what the file changes of it."""
        known = Row(line.number, KNOWN, name, asset_id=asset_id)
        baseline = self._values.get(asset_id)
        try:
            stated = self._stated(line.cells, baseline)
            draft = self._drafter.drafted(self._with_purchase(stated, asset_id)).draft
        except LabCarbonError as error:
            return replace(known, message=f"already registered, not compared: {error.message}")
        try:
            own = with_product(stated, draft)
            update = compare(self._registered, asset_id, draft, own, baseline, self._now)
            if not update.differences:
                return replace(known, message="already registered, unchanged")
            twice = self._twice(line)
            if twice:
                raise InvalidInput(twice, field="tag", hint="Use one line per asset.")
            ref = (
                self._parent(line.cells["parent"], line.number)
                if "parent" in update.fields
                else Ref()
            )
            if isinstance(ref, str):
                raise InvalidInput(ref, field="parent", hint="Use a tag or a unique name.")
        except LabCarbonError as error:
            return replace(
                known,
                outcome=WRONG,
                message=error.message,
                field=error.field or "",
                hint=error.hint,
            )
        if ref.asset_id is not None:
            parent = Asset.objects.get(pk=ref.asset_id)
            update = replace(
                update, draft=replace(draft, opening=replace(draft.opening, parent=parent))
            )
        return replace(
            known,
            outcome=CHANGED,
            update=update,
            parent_line=ref.line,
            message=", ".join(each.field.replace("_", " ") for each in update.differences),
        )

    def _stated(self, cells: dict[str, str], baseline: Values | None) -> dict[str, str]:
        """Return the cells of a line, with those of its last import that decide its figure and are
        empty now: an empty cell changes nothing.

        A name from which the model was taken replaces it, if the new one is a model too.
        """
        earlier = figure_cells(baseline) if baseline else {}
        if any(field.startswith("embodied_") for field in cells):
            earlier = {
                field: text for field, text in earlier.items() if not field.startswith("embodied_")
            }
        product, name = earlier.get("model", ""), cells.get("name", "")
        was_named = baseline is not None and product == baseline["name"]
        if product and was_named and not cells.get("model") and self._drafter.has_model(name):
            earlier["model"] = name
        return {**earlier, **cells}

    def _with_purchase(self, cells: dict[str, str], asset_id: int) -> dict[str, str]:
        """Add the registered purchase date to a line without one."""
        if cells.get("bought_on") or self._drafter.has_purchase_date:
            return cells
        hour = self._registered.get(asset_id)[0].bought_hour
        return {**cells, "bought_on": f"{utc((hour or 0) * US_PER_HOUR):%Y-%m-%dT%H:%MZ}"}

    def _twice(self, line: Line) -> str:
        for field in ("tag", "serial"):
            text = line.cells.get(field, "")
            first = (
                self._lines_by_key.setdefault((field, text), line.number) if text else line.number
            )
            if first != line.number:
                return f"The {field} {text[:60]!r} stands on line {first} already."
        return ""

    def _drafted(self, line: Line, name: str) -> Row:
        asset_input = self._drafter.drafted(line.cells)
        draft, parent_line = asset_input.draft, None
        if self.header.foreign and is_over(line.cells) and not draft.entries:
            return Row(line.number, LEFT_OUT, name, message=_without_date(line.cells))
        parent_text = line.cells.get("parent", "")
        if parent_text:
            ref = self._parent(parent_text, line.number)
            if isinstance(ref, str):
                hint = "Use a tag, or a name that only one asset of this file or the register has."
                return Row(line.number, WRONG, name, message=ref, field="parent", hint=hint)
            parent_line = ref.line
            if ref.asset_id is not None:
                parent = self._parents.setdefault(
                    parent_text, Asset.objects.filter(lab=self._lab, pk=ref.asset_id).first()
                )
                draft = replace(draft, opening=replace(draft.opening, parent=parent))
        asset = drafted_rows(self._lab, draft, None, self._now)[0]
        return Row(
            line.number,
            NEW,
            draft.facts.name,
            draft,
            asset_input.known,
            parent_line,
            elsewhere=asset_input.elsewhere,
            values=values_of_draft(draft, with_product(line.cells, draft)),
            remarks=asset_input.remarks,
            capacity_gb=asset_input.capacity_gb,
            state=asset.state,
        )

    def _parent(self, text: str, number: int) -> Ref | str:
        """Return the machine that a parent names, or the error."""
        if text in self._tags:
            return Ref(asset_id=self._tags[text])
        lines = self._named.get(text, [])
        if lines == [number]:
            return "A thing is not built into itself."
        if len(lines) > 1:
            return (
                f"Which {text[:60]!r}? Lines {', '.join(str(line) for line in lines[:5])} are "
                "called so."
            )
        if lines and lines[0] in self._multiple:
            return f"Which {text[:60]!r}? Line {lines[0]} is several of them."
        if lines:
            return Ref(line=lines[0])
        if text not in self._parents:
            parents = list(Asset.objects.filter(Q(name=text), lab=self._lab)[:2])
            if len(parents) > 1:
                return f"Which {text[:60]!r}? Several things of the register are called so."
            self._parents[text] = parents[0] if parents else None
        parent = self._parents[text]
        return (
            Ref(asset_id=parent.pk)
            if parent is not None
            else f"There is no {text[:60]!r} to be built into."
        )


def _name_of(cells: dict[str, str]) -> str:
    """Return the name of a line for messages: that of the first of these fields."""
    fields = ("name", "model", "tag", "serial")
    return next((cells[field] for field in fields if cells.get(field)), "")[:200]


def _without_date(cells: dict[str, str]) -> str:
    """Return the message of a line whose life has ended on an unknown day."""
    fields = ("end_of_life", "status")
    field = next(field for field in fields if cells.get(field))
    what = field.replace("_", " ")
    return f"skipped: {what} is {cells[field][:40]!r}, and the file has no date for it"
