"""One list of 125 pieces of hardware (hardware_list.csv), written as six kinds of export.

The list states what each line is: kind, the catalogue's model or the default that applies, and what
is odd about it. The writers below know nothing of that and nothing of the product: they write the
cells as a university's spreadsheet or an inventory system does.

Heading sources: NetBox `netbox/dcim/tables/devices.py`; Snipe-IT `app/Presenters/
AssetPresenter.php`; GLPI `src/Computer.php` and `src/Infocom.php` (search options).
"""

import csv
import io
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

import openpyxl

THINGS = 125
_STATES = {
    # state: German, Spanish, NetBox, Snipe-IT, GLPI
    "use": ("in Betrieb", "en uso", "Active", "Deployed", "In use"),
    "stock": ("Lager", "en almacén", "Inventory", "Ready to Deploy", "In stock"),
    "retired": ("ausgemustert", "retirado", "Decommissioning", "Archived", "Retired"),
    "lost": ("verloren", "perdido", "Decommissioning", "Lost", "Lost"),
    "stolen": ("gestohlen", "robado", "Decommissioning", "Stolen", "Stolen"),
}


@dataclass(frozen=True)
class Thing:
    """A line of the list. ``quantity``: how many of it there are."""

    tag: str
    name: str
    quantity: int
    prefix: str
    maker: str
    model: str
    category: str
    category_de: str
    category_es: str
    capacity: str
    bought_on: date
    price_eur: str
    state: str
    ended_on: date | None
    expected_kind: str
    expected_model: str
    expected_default: str
    odd: frozenset[str]

    @property
    def in_column(self) -> int | str:
        """The quantity where a column has it: a text "4x …" has none."""
        return "" if self.prefix else self.quantity

    @property
    def with_capacity(self) -> str:
        return f"{self.model} {self.capacity}".strip()


def things() -> list[Thing]:
    """Return the list."""
    with (Path(__file__).parent / "hardware_list.csv").open(newline="", encoding="utf-8") as file:
        return [
            Thing(
                **{
                    **row,
                    "quantity": int(row["quantity"]),
                    "bought_on": date.fromisoformat(row["bought_on"]),
                    "ended_on": date.fromisoformat(row["ended_on"]) if row["ended_on"] else None,
                    "odd": frozenset(row["odd"].split()),
                }
            )
            for row in csv.DictReader(file)
        ]


def _written(rows: list[list[object]], separator: str, *, quote_all: bool = False) -> str:
    out = io.StringIO()
    quoting = csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
    csv.writer(out, delimiter=separator, quoting=quoting, lineterminator="\r\n").writerows(rows)
    return out.getvalue()


def _german(price: str) -> str:
    whole, cents = price.split(".")
    return f"{int(whole):,}".replace(",", ".") + f",{cents}"


def xlsx() -> bytes:
    """Excel: a title above the headings, real dates and numbers, a second sheet of notes."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Geräte"
    sheet.append(["Inventar des Instituts, Stand 1. Juni 2024"])
    sheet.append([])
    sheet.append(
        ["Inventarnr.", "Bezeichnung", "Anzahl", "Hersteller", "Modell", "Kategorie", "Kapazität",
         "Anschaffungsdatum", "Einzelpreis (EUR)", "Status", "Ausgesondert am", "Kostenstelle"]
    )  # fmt: skip
    for thing in things():
        sheet.append(
            [thing.tag, thing.name, thing.in_column, thing.maker, thing.prefix + thing.model,
             thing.category_de, thing.capacity.replace(".", ","),
             datetime.combine(thing.bought_on, datetime.min.time()), float(thing.price_eur),
             _STATES[thing.state][0], thing.ended_on, 4711]
        )  # fmt: skip
    book.create_sheet("Hinweise").append(["Bitte Änderungen an die Verwaltung melden."])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def german_csv() -> bytes:
    """A German Excel's "CSV (Trennzeichen-getrennt)": Windows-1252, semicolon, decimal comma."""
    rows: list[list[object]] = [
        ["Inventarnummer", "Gerät", "Stück", "Hersteller", "Typbezeichnung", "Geräteart",
         "Speichergröße", "Kaufdatum", "Stückpreis", "Währung", "Zustand", "Abgang am"]
    ]  # fmt: skip
    rows.extend(
        [thing.tag, thing.name, thing.in_column, thing.maker, thing.prefix + thing.model,
         thing.category_de, thing.capacity.replace(".", ","), f"{thing.bought_on:%d.%m.%Y}",
         _german(thing.price_eur), "EUR", _STATES[thing.state][0],
         f"{thing.ended_on:%d.%m.%y}" if thing.ended_on else ""]
        for thing in things()
    )  # fmt: skip
    return _written(rows, ";").encode("cp1252")


def _each(thing: Thing) -> list[tuple[str, str]]:
    """Return (tag, name) of each item: an inventory system has a row per item."""
    if thing.quantity == 1:
        return [(thing.tag, thing.name)]
    return [(f"{thing.tag}.{i}", f"{thing.name} {i}") for i in range(1, thing.quantity + 1)]


def glpi() -> bytes:
    """GLPI's export of a search: semicolons, all cells quoted, day first."""
    info = "Financial and administrative information - "
    rows: list[list[object]] = [
        ["Name", "Entity", "Status", "Manufacturer", "Serial number", "Inventory number", "Type",
         "Model", "Location", "Last update", f"{info}Date of purchase", f"{info}Value",
         f"{info}Decommission date"]
    ]  # fmt: skip
    for number, thing in enumerate(things()):
        for tag, name in _each(thing):
            rows.append(
                [name, "Root entity > Institute", _STATES[thing.state][4], thing.maker,
                 f"SN-{tag}", tag, thing.category, thing.with_capacity, "Building 3 > Room 12",
                 f"1{number % 10}-05-2024 09:12", f"{thing.bought_on:%d-%m-%Y}", thing.price_eur,
                 f"{thing.ended_on:%d-%m-%Y}" if thing.ended_on else ""]
            )  # fmt: skip
    return b"\xef\xbb\xbf" + _written(rows, ";", quote_all=True).encode()


def snipe_it() -> bytes:
    """Snipe-IT's custom report with the American date format and a custom field."""
    rows: list[list[object]] = [
        ["Asset Name", "Asset Tag", "Serial", "Model", "Model No.", "Category", "Status",
         "Checked Out To", "Location", "Purchase Date", "Purchase Cost", "Supplier",
         "Manufacturer", "Notes", "Disposal Date"]
    ]  # fmt: skip
    for thing in things():
        for tag, name in _each(thing):
            rows.append(
                [name, tag, f"SN-{tag}", thing.with_capacity, "", thing.category,
                 _STATES[thing.state][3], "", "Room 12", f"{thing.bought_on:%m/%d/%Y}",
                 f"{float(thing.price_eur):,.2f}", "Acme", thing.maker, "",
                 f"{thing.ended_on:%m/%d/%Y}" if thing.ended_on else ""]
            )  # fmt: skip
    return _written(rows, ",").encode()


def netbox() -> bytes:
    """NetBox's device table with custom fields for what it does not have."""
    rows: list[list[object]] = [
        ["Name", "Status", "Tenant", "Site", "Rack", "Role", "Manufacturer", "Type",
         "Serial number", "Asset tag", "IP Address", "Purchase date", "Purchase price",
         "Disposal date"]
    ]  # fmt: skip
    for thing in things():
        for tag, name in _each(thing):
            rows.append(
                [name, _STATES[thing.state][2], "Institute", "Building 3", "R1", thing.category,
                 thing.maker, thing.with_capacity, f"SN-{tag}", tag, "",
                 thing.bought_on.isoformat(), thing.price_eur,
                 thing.ended_on.isoformat() if thing.ended_on else ""]
            )  # fmt: skip
    return _written(rows, ",").encode()


def spanish_csv() -> bytes:
    """Own columns of a Spanish lab: UTF-16 with tabs, as Excel's "Unicode text"; day/month/year."""
    rows: list[list[object]] = [
        ["N.º de inventario", "Descripción", "Cantidad", "Fabricante", "Modelo", "Categoría",
         "Capacidad", "Fecha de compra", "Precio unitario", "Moneda", "Estado", "Fecha de baja"]
    ]  # fmt: skip
    rows.extend(
        [thing.tag, thing.name, thing.in_column, thing.maker, thing.prefix + thing.model,
         thing.category_es, thing.capacity.replace(".", ","), f"{thing.bought_on:%d/%m/%Y}",
         _german(thing.price_eur), "EUR", _STATES[thing.state][1],
         f"{thing.ended_on:%d/%m/%Y}" if thing.ended_on else ""]
        for thing in things()
    )  # fmt: skip
    return _written(rows, "\t").encode("utf-16")


# Name of each format, its file, and whether a line can stand for several things.
FORMATS = {
    "XLSX": (xlsx, "inventar.xlsx", True),
    "German CSV": (german_csv, "inventar.csv", True),
    "GLPI": (glpi, "glpi.csv", False),
    "Snipe-IT": (snipe_it, "custom-asset-report.csv", False),
    "NetBox": (netbox, "netbox_devices.csv", False),
    "Spanish": (spanish_csv, "inventario.txt", True),
}
