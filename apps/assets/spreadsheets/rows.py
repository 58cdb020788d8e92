"""Convert one line to an asset to register. Ambiguous fields are refused, not guessed."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from django.urls import reverse

from apps.accounts.models import Lab, Project
from apps.assets.services.validation import Draft, Embodied, Entry, Facts, default_life_hours
from apps.assets.spreadsheets import cells
from apps.assets.spreadsheets.catalog_match import Known, Matcher, names_of
from apps.assets.spreadsheets.formats import Header
from apps.assets.spreadsheets.life_cells import LifeCells, Remark
from apps.assets.spreadsheets.role_words import DISK, category_of, role_of
from apps.catalog.choices import HardwareKind
from apps.core.errors import InvalidInput
from apps.core.spreadsheets.days import day_of
from apps.fleet.models import Site

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Options:
    """How a file is read.

    ``currency`` (ISO 4217), ``bought_on`` (2026-11-01): for lines without the value. ``columns``:
    the field of each column as a person assigned them, None: by their headings. ``date_order``,
    ``decimal``: as confirmed, or found in the file. ``encoding``, ``separator``, ``sheet``: of the
    file.
    """

    currency: str = ""
    bought_on: str = ""
    columns: dict[str, str] | None = None
    date_order: str = ""
    decimal: str = ""
    encoding: str = ""
    separator: str = ""
    sheet: str = ""


@dataclass(frozen=True)
class Drafted:
    """An asset to register. ``elsewhere``: a site in the file that the lab does not have."""

    draft: Draft
    known: Known
    elsewhere: str = ""
    remarks: tuple[Remark, ...] = ()
    capacity_gb: int | None = None


class Drafter:
    """Reads lines of one file for one lab."""

    def __init__(self, lab: Lab, options: Options, header: Header, now: int) -> None:
        self._lab, self._options, self._foreign = lab, options, header.foreign
        self._currency = header.currency or options.currency
        self._zone = ZoneInfo(lab.time_zone)
        self._life_cells = LifeCells(
            self._zone,
            bought_on=options.bought_on,
            date_order=options.date_order,
            decimal=options.decimal,
            foreign=header.foreign,
            now=now,
        )
        self._matcher = Matcher(lab)
        self._projects: dict[str, Project] = {
            project.slug: project for project in lab.projects.all()
        }
        self._projects_by_name = {
            project.name.casefold(): project for project in self._projects.values()
        }
        self._sites: dict[str, Site] = {site.name: site for site in lab.sites.all()}

    @property
    def has_purchase_date(self) -> bool:
        """Return whether lines without a purchase date get one."""
        return bool(self._options.bought_on)

    def has_model(self, name: str) -> bool:
        """Return whether a name is that of a model of the catalogue."""
        return self._matcher.find(names_of("", name, "")) is not None

    def drafted(self, row: dict[str, str]) -> Drafted:
        """Return the result of a line. Raises InvalidInput naming the field."""
        kind, known, remarks, capacity = self._matched(row)
        acquired = self._life_cells.acquisition(row)
        site, elsewhere = self._site(row)
        opening = Entry(
            acquired.kind,
            acquired.at_us,
            embodied=known.embodied,
            life_hours=self._life(row, kind),
            amortisation=row.get("amortisation", ""),
            project=self._owner(row),
            site=site,
            counterpart=acquired.lessor,
        )
        entries = self._life_cells.closing(row)
        draft = Draft(
            self._facts(row, kind, known, acquired.at_us, elsewhere),
            opening,
            self._life_cells.first_use_us(row, acquired.at_us),
            entries=entries,
        )
        remarks = (*remarks, *self._life_cells.remarks(row, entries))
        return Drafted(draft, known, elsewhere, remarks, capacity)

    def _matched(self, row: dict[str, str]) -> tuple[str, Known, tuple[Remark, ...], int | None]:
        """Return kind, model and embodied carbon: those of the catalogue's model, else of the
        default that the words of the line name.
        """
        stated, maker = self._stated_kind(row), row.get("manufacturer", "")
        model, name = row.get("model", ""), row.get("name", "")
        words = row.get("category", "") or ("" if stated else row.get("kind", ""))
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
                    Remark("kind", f"{words[:40]!r} is not its kind: the catalogue's model decides")
                )
        else:
            role = role or role_of(model or name)
            kind = stated or (role.kind if role else HardwareKind.OTHER)
        capacity = self._capacity(row) or cells.capacity_in(model or name)
        category = category_of(kind, words, f"{model} {name}")
        if kind == HardwareKind.STORAGE and not category and capacity:
            category = DISK
        known = self._embodied(row, self._matcher.known(kind, names, category, capacity))
        if known.by == "category":
            remarks.append(Remark("default", known.why))
        elif known.embodied is None:
            remarks.append(Remark("unknown", known.why))
        has_capacity = kind in {HardwareKind.STORAGE, HardwareKind.OTHER}
        return kind, known, tuple(remarks), capacity if has_capacity else None

    def _capacity(self, row: dict[str, str]) -> int | None:
        """Return the capacity in GB that a column has."""
        if not self._foreign:
            text = row.get("capacity_tb", "")
            return cells.gigabytes_of(text, "capacity_tb") if text else None
        units = {"capacity": "", "capacity_tb": "TB", "capacity_gb": "GB"}
        field = next((field for field in units if row.get(field)), "")
        return cells.capacity_of(row[field], field, units[field]) if field else None

    def _stated_kind(self, row: dict[str, str]) -> str:
        kind = row.get("kind", "").lower()
        if kind and kind not in HardwareKind.values:
            if self._foreign:  # words, read as those of a category
                return ""
            hint = f"Use one of {', '.join(HardwareKind.values)}."
            raise InvalidInput(f"{kind[:40]!r} is not a kind of asset.", field="kind", hint=hint)
        return kind

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
        if self._foreign and slug.casefold() in self._projects_by_name:
            return self._projects_by_name[slug.casefold()]
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
        price = cells.price_of(
            text, "price", strict=not self._foreign, decimal=self._options.decimal
        )
        currency = row.get("currency") or cells.currency_in(text) or self._currency
        if not currency and price == 0 and self._foreign:  # Snipe-IT: 0.00 if unknown
            return None, ""
        if not currency:
            hint = "Fill in the column, or upload the file with a currency for its prices."
            raise InvalidInput("The currency of the price is missing.", field="currency", hint=hint)
        return price, currency

    def _warranty(self, row: dict[str, str], bought_us: int) -> date | None:
        if "warranty_until" in row:
            return day_of(row["warranty_until"], "warranty_until", self._options.date_order)
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
