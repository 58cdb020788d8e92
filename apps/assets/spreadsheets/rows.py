"""Convert one line to an asset to register. Ambiguous fields are refused, not guessed."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from django.urls import reverse

from apps.accounts.models import Lab, Project
from apps.assets.choices import EventKind
from apps.assets.services.validation import Draft, Embodied, Entry, Facts, default_life_hours
from apps.assets.spreadsheets import cells
from apps.assets.spreadsheets.catalog_match import Known, Matcher, names_of
from apps.assets.spreadsheets.formats import state_of
from apps.assets.spreadsheets.role_words import DISK, category_of, role_of
from apps.catalog.choices import HardwareKind
from apps.core.errors import InvalidInput
from apps.fleet.models import Site

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Options:
    """Defaults for lines without the value: an ISO 4217 currency, a day (2026-11-01)."""

    currency: str = ""
    bought_on: str = ""


@dataclass(frozen=True)
class Remark:
    """What is odd about a line that can be registered."""

    code: str
    text: str


@dataclass(frozen=True)
class Drafted:
    """An asset to register. ``elsewhere``: a site in the file that the lab does not have."""

    draft: Draft
    known: Known
    elsewhere: str = ""
    remarks: tuple[Remark, ...] = ()


class Drafter:
    """Reads lines of one file for one lab."""

    def __init__(self, lab: Lab, options: Options, *, foreign: bool) -> None:
        self._lab, self._options, self._foreign = lab, options, foreign
        self._zone = ZoneInfo(lab.time_zone)
        self._matcher = Matcher(lab)
        self._projects: dict[str, Project] = {
            project.slug: project for project in lab.projects.all()
        }
        self._sites: dict[str, Site] = {site.name: site for site in lab.sites.all()}

    @property
    def has_purchase_date(self) -> bool:
        """Return whether lines without a purchase date get one."""
        return bool(self._options.bought_on)

    def drafted(self, row: dict[str, str]) -> Drafted:
        """Return the result of a line. Raises InvalidInput naming the field."""
        kind, known, remarks = self._matched(row)
        bought_us = self._parse_purchase(row)
        site, elsewhere = self._site(row)
        opening = Entry(
            EventKind.SECOND_HAND if self._parse_bool(row, "second_hand") else EventKind.PURCHASE,
            bought_us,
            embodied=known.embodied,
            life_hours=self._life(row, kind),
            amortisation=row.get("amortisation", ""),
            project=self._owner(row),
            site=site,
        )
        facts = self._facts(row, kind, known, bought_us, elsewhere)
        return Drafted(
            Draft(
                facts,
                opening,
                self._parse_first_use(row, bought_us),
                entries=self._parse_disposal(row),
            ),
            known,
            elsewhere,
            remarks,
        )

    def _matched(self, row: dict[str, str]) -> tuple[str, Known, tuple[Remark, ...]]:
        """Return kind, model and embodied carbon: those of the catalogue's model, else of the
        default that the words of the line name.
        """
        stated, maker = self._stated_kind(row), row.get("manufacturer", "")
        model, words, name = row.get("model", ""), row.get("category", ""), row.get("name", "")
        names = names_of(stated, model or name, maker)
        role = role_of(words)
        found = self._matcher.find(names, kind=stated, role=role.kind if role else "", maker=maker)
        remarks = []
        if found is not None:
            kind, names = found.model.kind, (found.name, *names)
            if found.shortened:
                remarks.append(Remark("capacity", f"matched as {found.name!r}, without capacity"))
            if role is not None and role.kind != kind and not stated:
                remarks.append(
                    Remark("kind", f"{words[:40]!r} names another kind: the catalogue's counts")
                )
        else:
            role = role or role_of(model or name)
            kind = stated or (role.kind if role else HardwareKind.OTHER)
        capacity = (
            cells.gigabytes_of(row["capacity_tb"], "capacity_tb") if "capacity_tb" in row else None
        )
        capacity = capacity or cells.capacity_in(model or name)
        category = category_of(kind, words, f"{model} {name}")
        if kind == HardwareKind.STORAGE and not category and capacity:
            category = DISK
        known = self._embodied(row, self._matcher.known(kind, names, category, capacity))
        return kind, known, tuple(remarks)

    @staticmethod
    def _stated_kind(row: dict[str, str]) -> str:
        kind = row.get("kind", "").lower()
        if kind and kind not in HardwareKind.values:
            hint = f"Use one of {', '.join(HardwareKind.values)}."
            raise InvalidInput(f"{kind[:40]!r} is not a kind of asset.", field="kind", hint=hint)
        return kind

    def _parse_purchase(self, row: dict[str, str]) -> int:
        text = row.get("bought_on") or self._options.bought_on
        if not text:
            hint = "Fill in the column, or upload the file with a purchase date for all other rows."
            raise InvalidInput("The purchase date is missing.", field="bought_on", hint=hint)
        return cells.moment_us(text, "bought_on", self._zone)

    def _parse_first_use(self, row: dict[str, str], bought_us: int) -> int | None:
        if not self._foreign:
            text = row.get("in_use_since", "")
            return cells.moment_us(text, "in_use_since", self._zone) if text else None
        return bought_us if state_of(row.get("status", "")) == "use" else None

    def _parse_disposal(self, row: dict[str, str]) -> tuple[Entry, ...]:
        ends = (("retired_on", EventKind.RETIRE), ("disposed_on", EventKind.DISPOSE))
        return tuple(
            Entry(kind, cells.moment_us(row[name], name, self._zone))
            for name, kind in ends
            if name in row
        )

    def _life(self, row: dict[str, str], kind: str) -> int:
        return (
            cells.life_hours(row["life_years"], "life_years")
            if "life_years" in row
            else default_life_hours(kind)
        )

    def _parse_bool(self, row: dict[str, str], field: str) -> bool | None:
        return cells.yes_no(row.get(field, ""), field)

    def _owner(self, row: dict[str, str]) -> Project | None:
        slug = row.get("owner", "")
        if slug and slug not in self._projects:
            hint = (
                f"A project's short name: {', '.join(list(self._projects)[:20])}. Empty: the lab."
            )
            raise InvalidInput(f"No project {slug[:60]!r} in this lab.", field="owner", hint=hint)
        return self._projects[slug] if slug else None

    def _site(self, row: dict[str, str]) -> tuple[Site | None, str]:
        name = row.get("site", "")
        if not name or name in self._sites:
            return (self._sites[name] if name else None), ""
        if self._foreign:
            return None, name
        hint = f"Create sites at {reverse('sites')}. Known: {', '.join(list(self._sites)[:20])}."
        raise InvalidInput(f"No site {name[:60]!r} in this lab.", field="site", hint=hint)

    def _facts(
        self, row: dict[str, str], kind: str, known: Known, bought_us: int, elsewhere: str
    ) -> Facts:
        name = row.get("name", "")
        if not name and self._foreign:
            name = " ".join(
                part
                for part in (row.get("model", ""), row.get("tag") or row.get("serial", ""))
                if part
            )
        price, currency = self._price(row)
        model = row.get("model", "")
        note = row.get("note", "")
        if model and known.model is None:  # keep the unmatched text
            note = f"{note} (model: {model})" if note else f"Model: {model}"
        return Facts(
            name=name,
            kind=kind,
            model=known.model,
            serial=row.get("serial", ""),
            tag=row.get("tag", ""),
            supplier=row.get("supplier", ""),
            price_ucurrency=price,
            currency=currency,
            warranty_until=self._warranty(row, bought_us),
            note=note,
            order_number=row.get("order_number", ""),
            contact=row.get("contact", ""),
            location=", ".join(part for part in (elsewhere, row.get("location", "")) if part),
        )

    def _price(self, row: dict[str, str]) -> tuple[int | None, str]:
        text = row.get("price", "")
        if not text:
            return None, ""
        price = cells.price_of(text, "price", strict=not self._foreign)
        currency = row.get("currency") or cells.currency_in(text) or self._options.currency
        if not currency and price == 0 and self._foreign:  # Snipe-IT: 0.00 if unknown
            return None, ""
        if not currency:
            hint = "Fill in the column, or upload the file with a currency for its prices."
            raise InvalidInput("The currency of the price is missing.", field="currency", hint=hint)
        return price, currency

    def _warranty(self, row: dict[str, str], bought_us: int) -> date | None:
        if "warranty_until" in row:
            return cells.day_of(row["warranty_until"], "warranty_until")
        if "warranty_months" not in row or cells.no_months(row["warranty_months"]):
            return None
        begin = datetime.fromtimestamp(bought_us // 1_000_000, tz=UTC).astimezone(self._zone).date()
        return cells.months_after(begin, row["warranty_months"], "warranty")

    def _embodied(self, row: dict[str, str], known: Known) -> Known:
        """Return the embodied carbon of the line, else that of the catalogue."""
        text = row.get("embodied_kg", "")
        if text.lower() == UNKNOWN:
            return Known(known.model, None, "", "the file says that it is not known")
        if not text:
            if any(name.startswith("embodied_") for name in row):
                raise InvalidInput(
                    "A range or part needs a total.",
                    field="embodied_kg",
                    hint="Fill in embodied_kg.",
                )
            if self._parse_bool(row, "second_hand"):
                source = "Second-hand, cut-off: its making stays with its first owner"
                return Known(
                    known.model,
                    Embodied(0, source=source),
                    "file",
                    "second-hand: nothing of its first life",
                )
            return known
        stated = Embodied(
            total_ug=cells.ug_of(text, "embodied_kg"),
            low_ug=self._ug(row, "low"),
            high_ug=self._ug(row, "high"),
            manufacture_ug=self._ug(row, "manufacture"),
            transport_ug=self._ug(row, "transport"),
            end_of_life_ug=self._ug(row, "end_of_life"),
            includes_end_of_life=self._parse_bool(row, "embodied_includes_end_of_life"),
            source=row.get("embodied_source", "")[:500] or "From the imported file",
        )
        if known.embodied is not None and _without_figure(known.embodied) == _without_figure(
            stated
        ):
            return Known(known.model, known.embodied, "model", known.why)
        return Known(known.model, stated, "file", stated.source)

    def _ug(self, row: dict[str, str], part: str) -> int | None:
        field = f"embodied_{part}_kg"
        return cells.ug_of(row[field], field) if field in row else None


def _without_figure(what: Embodied) -> tuple[object, ...]:
    return (
        what.total_ug,
        what.low_ug,
        what.high_ug,
        what.manufacture_ug,
        what.transport_ug,
        what.end_of_life_ug,
        what.includes_end_of_life,
        what.source,
    )
