"""Files with any headings: columns are assigned once and remembered for one lab; dates and numbers
are read in the file's own notation.
"""

import pytest

from apps.assets.models import ColumnMapping, RegisterImport
from apps.assets.services.csv_import import assign_columns, upload
from apps.assets.services.file_columns import Answers, questions_about
from apps.assets.spreadsheets import cells
from apps.assets.spreadsheets.endings import state_of
from apps.assets.spreadsheets.formats import recognise
from apps.assets.spreadsheets.headings import FIELD_BY_HEADING, FIELDS, guess
from apps.assets.spreadsheets.rows import Options
from apps.core.errors import Conflict, InvalidInput
from apps.core.spreadsheets.columns import columns_of, plain
from apps.core.spreadsheets.days import day_of
from apps.core.spreadsheets.notation import notation_of
from tests.builders import T0, SmallLab, small_lab

HEAD = "Gerät;Modell;Kaufdatum;Preis;Währung;Raum\n"
FIELDS_OF_HEAD = {
    "gerat": "name", "modell": "model", "kaufdatum": "bought_on", "preis": "price",
    "wahrung": "currency", "raum": "location",
}  # fmt: skip


@pytest.mark.parametrize(
    ("heading", "field"),
    [
        ("Seriennummer", "serial"), ("S/N", "serial"), ("Numéro de série", "serial"),
        ("N.º de serie", "serial"), ("Preis (EUR)", "price"), ("Prix d'achat", "price"),
        ("Fecha de compra", "bought_on"), ("Date d’achat", "bought_on"), ("Größe (GB)", ""),
        ("Kapazität (TB)", "capacity_tb"), ("Kapazität", "capacity"), ("Stückzahl", "quantity"),
        ("Kostenstelle", ""), ("retired_on", "retired_on"), ("", ""),
    ],
)  # fmt: skip
def test_headings_are_guessed(heading: str, field: str) -> None:
    assert guess(heading) == field


def test_guesses_are_fields() -> None:
    assert set(FIELD_BY_HEADING.values()) <= set(FIELDS)
    assert all(plain(heading) == heading for heading in FIELD_BY_HEADING)


def test_columns_have_unique_keys() -> None:
    keys = [column.key for column in columns_of(["Status", "status", "", "Größe", " STATUS "])]
    assert keys == ["status", "status__2", "column_3", "grosse", "status__3"]


@pytest.mark.parametrize(
    ("head", "origin", "assigned"),
    [
        ("name,kind,tag,bought_on", "LabCarbon", True),
        ("Name,Status,Role,Manufacturer,Type,Site,owner,price,kind", "NetBox", True),
        ("name,device_type,role,status", "NetBox", True),
        ("Asset Name,Asset Tag,Model,Category,price", "Snipe-IT", True),
        ("Name,Entity,Status,Model,Last update", "GLPI", True),
        ("Nom,Entité,Statut,Modèle,Dernière modification", "GLPI", True),
        ("Account info: TAG,Last inventory,Computer,Model", "OCS Inventory", True),
        ("Name,Model,Role", "own columns", False),
        ("name,name,kind", "own columns", False),
    ],
)
def test_formats_are_recognised_by_several_columns(
    head: str, origin: str, *, assigned: bool
) -> None:
    header = recognise(head.split(","))
    assert (header.origin, header.assigned) == (origin, assigned)


def test_ocs_columns() -> None:
    header = recognise(
        [
            "Account info: TAG",
            "Last inventory",
            "Computer",
            "Manufacturer",
            "Model",
            "Serial number",
        ]
    )
    assert header.fields == ("tag", "", "name", "manufacturer", "model", "serial")


@pytest.mark.parametrize(
    ("dates", "numbers", "order", "decimal", "asked"),
    [
        (["13/04/2024", "03/04/2024"], [], "dmy", "", False),
        (["04/13/2024", "03/04/2024"], [], "mdy", "", False),
        (["03/04/2024"], [], "", "", True),
        (["04/04/2024", "2024-03-04", "3.4.2024"], [], "", "", False),
        (["13/04/2024", "04/13/2024"], [], "", "", False),
        (["13/04/2024", "04/13/2024", "03/04/2024"], [], "", "", True),
        ([], ["1.500", "3,84"], "", ",", False),
        ([], ["1,500", "1.234.567,00 €"], "", ",", False),
        ([], ["1,500", "12.50"], "", ".", False),
        ([], ["1,500"], "", "", True),
        ([], ["1,500", "3,84", "3.84"], "", "", True),
        ([], ["1.234.567"], "", ",", False),
    ],
)
def test_notation_of_a_file(
    dates: list[str], numbers: list[str], order: str, decimal: str, *, asked: bool
) -> None:
    notation = notation_of(dates, numbers)
    assert (notation.date_order, notation.decimal) == (order, decimal)
    assert notation.is_clear != asked


@pytest.mark.parametrize(
    ("text", "order", "day"),
    [
        ("03/04/2024", "dmy", "2024-04-03"), ("03/04/2024", "mdy", "2024-03-04"),
        ("13/04/2024", "", "2024-04-13"), ("04-13-2024", "", "2024-04-13"),
        ("1.3.24", "", "2024-03-01"), ("1.3.99", "", "1999-03-01"),
        ("2024-05-13 09:12", "", "2024-05-13"), ("13.04.2024", "mdy", "2024-04-13"),
    ],
)  # fmt: skip
def test_days(text: str, order: str, day: str) -> None:
    assert day_of(text, "f", order).isoformat() == day


@pytest.mark.parametrize(
    ("text", "order"),
    [("03/04/2024", ""), ("13/04/2024", "mdy"), ("04/13/2024", "dmy"), ("3/4/2024 x", "dmy")],
)
def test_days_that_are_refused(text: str, order: str) -> None:
    with pytest.raises(InvalidInput):
        day_of(text, "f", order)


@pytest.mark.parametrize(
    ("text", "number", "rest"),
    [
        ("4x RTX 3090", 4, "RTX 3090"), ("4 × A100", 4, "A100"), ("2x16GB DDR4", 2, "16GB DDR4"),
        ("3 Stück Monitor", 3, "Monitor"), ("7x24 server", 1, "7x24 server"),
        ("4x4 carrier", 1, "4x4 carrier"), ("x16", 1, "x16"), ("0x RTX", 1, "0x RTX"),
        ("3090", 1, "3090"),
    ],
)  # fmt: skip
def test_quantities_in_a_text(text: str, number: int, rest: str) -> None:
    assert cells.times_in(text) == (number, rest)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("in Betrieb", "use"), ("Deployed to gpu-01", "use"), ("ausgemustert 2021", "over"),
        ("gestohlen", "over"), ("Volé", "over"), ("Lager", "stock"), ("", "stock"),
        ("bei Frau Meier", "unknown"),
    ],
)  # fmt: skip
def test_states(status: str, state: str) -> None:
    assert state_of(status) == state


@pytest.fixture
def lab(db: None) -> SmallLab:
    return small_lab()


def uploaded(lab: SmallLab, text: str, options: Options | None = None) -> RegisterImport:
    return upload(
        lab=lab.lab, file_name="liste.csv", content=text.encode("cp1252"),
        options=options or Options(currency="EUR", bought_on="2024-03-01"), by=lab.owner, now=T0,
    )  # fmt: skip


def assigned(lab: SmallLab, text: str, answers: Answers) -> RegisterImport:
    row = uploaded(lab, text)
    assert row.state == "mapping"
    assign_columns(row=row, answers=answers, by=lab.owner, now=T0)
    row.refresh_from_db()
    return row


def test_answers_are_remembered_for_files_with_the_same_headings(lab: SmallLab) -> None:
    text = HEAD + "a;RTX 3090;03/04/2024;1.500;EUR;1\n"
    row = assigned(lab, text, Answers(FIELDS_OF_HEAD, "dmy", ","))
    (line,) = row.summary["rows"]
    assert (line["bought_on"], line["price_ucurrency"]) == ("2024-04-03", 1_500_000_000)
    again = uploaded(lab, text)
    assert (again.state, again.summary["rows"]) == ("read", row.summary["rows"])
    moved = "Modell;Gerät;Kaufdatum;Preis;Währung;Raum\nRTX 3090;a;03/04/2024;1.500;EUR;1\n"
    assert uploaded(lab, moved).summary["rows"] == row.summary["rows"]
    other = uploaded(lab, HEAD.replace("Raum", "Etage") + "a;RTX 3090;13/04/2024;1;EUR;1\n")
    assert other.state == "mapping"
    fields = {each["key"]: each["field"] for each in other.summary["questions"]["columns"]}
    expected = {key: field for key, field in FIELDS_OF_HEAD.items() if key != "raum"}
    assert fields == {**expected, "etage": ""}


def test_another_lab_is_asked_itself(lab: SmallLab) -> None:
    text = HEAD + "a;RTX 3090;03/04/2024;1.500;EUR;1\n"
    strange = {**FIELDS_OF_HEAD, "raum": "supplier"}
    assigned(lab, text, Answers(strange, "dmy", ","))
    elsewhere = small_lab(name="Elsewhere")
    row = uploaded(elsewhere, text)
    assert row.state == "mapping"
    fields = {each["key"]: each["field"] for each in row.summary["questions"]["columns"]}
    assert fields == FIELDS_OF_HEAD
    assign_columns(row=row, answers=Answers(FIELDS_OF_HEAD, "mdy", "."), by=None, now=T0)
    assert ColumnMapping.objects.filter(lab=lab.lab).get().columns == strange
    assert ColumnMapping.objects.count() == 2


def test_a_stored_mapping_that_no_longer_fits_is_refused(lab: SmallLab) -> None:
    text = HEAD + "a;RTX 3090;13/04/2024;1,50;EUR;1\n"
    assigned(lab, text, Answers(FIELDS_OF_HEAD))
    ColumnMapping.objects.update(columns={"gerat": "password"})
    with pytest.raises(InvalidInput, match="not a field"):
        uploaded(lab, text)


def test_a_known_format_asks_only_for_what_is_ambiguous(lab: SmallLab) -> None:
    text = "Asset Name,Asset Tag,Model,Category,Purchase Date\na,1,RTX 3090,GPU,03/04/2024\n"
    row = uploaded(lab, text)
    assert (row.state, row.summary["questions"]["needs_columns"]) == ("mapping", False)
    assign_columns(row=row, answers=Answers(None, "mdy"), by=lab.owner, now=T0)
    row.refresh_from_db()
    assert row.summary["rows"][0]["bought_on"] == "2024-03-04"
    assert uploaded(lab, text).state == "read"


def test_a_wrong_line_of_several_things_is_one_line_to_correct(lab: SmallLab) -> None:
    text = "name,kind,tag,bought_on,quantity,price\nDisk,storage,I-1,2024-03-01,8,dear\n"
    names = text.partition("\n")[0].split(",")
    row = assigned(lab, text, Answers({name: name for name in names}))
    assert row.summary["wrong"][0]["field"] == "price"
    assert row.summary["counts"] == {"wrong": 1}
    assert len(row.summary["wrong"]) == 1


def test_columns_can_be_changed_until_the_file_is_registered(lab: SmallLab) -> None:
    text = HEAD + "a;RTX 3090;13/04/2024;1,50;EUR;Keller\n"
    row = assigned(lab, text, Answers(FIELDS_OF_HEAD))
    answers = Answers({**FIELDS_OF_HEAD, "raum": "note"})
    assign_columns(row=row, answers=answers, by=lab.owner, now=T0)
    RegisterImport.objects.filter(pk=row.pk).update(state="done", content="")
    row.refresh_from_db()
    with pytest.raises(Conflict):
        assign_columns(row=row, answers=answers, by=lab.owner, now=T0)


def test_odd_lines_of_own_columns_are_reported(lab: SmallLab) -> None:
    head = "Gerät;Anzahl;Inventarnummer;Seriennummer;Modell;Kapazität;Zustand\n"
    lines = (
        "paar;2;I1;A, B;RTX 3090;;in Betrieb\n"
        "drei;3;I2;A;RTX 3090;;in Betrieb\n"
        "keins;0;I3;;RTX 3090;;in Betrieb\n"
        "viel;viele;I4;;RTX 3090;;in Betrieb\n"
        "4x RTX 3090;2;I5;;;;in Betrieb\n"
        "platte;;I6;;SSD;3,84;in Betrieb\n"
        "wo;;I7;;RTX 3090;;bei Frau Meier\n"
        ";;;;;;in Betrieb\n"
    )
    fields = {
        "gerat": "name", "anzahl": "quantity", "inventarnummer": "tag", "seriennummer": "serial",
        "modell": "model", "kapazitat": "capacity", "zustand": "status",
    }  # fmt: skip
    row = assigned(lab, head + lines, Answers(fields))
    assert row.summary["counts"] == {"new": 3, "wrong": 4, "left_out": 2}
    wrong = [(each["line"], each["field"]) for each in row.summary["wrong"]]
    assert wrong == [(3, "serial"), (5, "quantity"), (6, "quantity"), (7, "capacity")]
    by_line = {each["line"]: each for each in row.summary["rows"]}
    assert [remark["code"] for remark in by_line[8]["remarks"]] == ["status"]
    assert by_line[4]["message"].startswith("skipped: its quantity is 0")
    assert by_line[9]["outcome"] == "left_out"
    assert by_line[2]["items"] == 2


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ("name,kind,price,bought_on\na,gpu,1,2024-03-01\n", ""),
        ("Gerät;Modell;Preis\na;RTX 3090;\nb;RTX 3090;12,50\n", "12,50"),
        ("Gerät;Modell;Preis\na;RTX 3090;0,00\n", ""),
        ("Gerät;Modell;Preis;Währung\na;RTX 3090;1;EUR\n", ""),
        ("Gerät;Modell;Preis;Währung\na;RTX 3090;1;EUR\nb;RTX 3090;2;\n", "2"),
        ("Gerät;Modell;Preis\na;RTX 3090;1,50 €\nb;RTX 3090;USD 7\n", ""),
        ("Gerät;Modell;Preis\na;RTX 3090;1,50 €\nb;RTX 3090;7\n", "7"),
        ("Gerät;Modell;Preis (EUR)\na;RTX 3090;1,50\n", ""),
        ("Gerät;Modell;Preis\na;RTX 3090;dear\n", ""),
    ],
)
def test_a_price_without_a_currency_is_asked_about(text: str, example: str) -> None:
    assert questions_about(text, Options()).price_example == example


def test_the_currency_is_remembered_for_files_with_the_same_headings(lab: SmallLab) -> None:
    head = "Asset Name,Asset Tag,Model,Category,Purchase Date,Purchase Cost"
    text = f"{head}\na,I-1,RTX 3090,GPU,2024-03-01,12.50\n"
    row = uploaded(lab, text, Options())
    assert row.state == "mapping"
    assert row.summary["questions"]["price_example"] == "12.50"
    with pytest.raises(InvalidInput) as missing:
        assign_columns(row=row, answers=Answers(), by=lab.owner, now=T0)
    assert missing.value.field == "currency"
    assign_columns(row=row, answers=Answers(currency="chf"), by=lab.owner, now=T0)
    row.refresh_from_db()
    assert (row.state, row.summary["rows"][0]["currency"]) == ("read", "CHF")
    again = uploaded(lab, text.replace("12.50", "13.50"), Options())
    assert (again.state, again.summary["rows"][0]["currency"]) == ("read", "CHF")
    stated = uploaded(lab, text, Options(currency="EUR"))
    assert stated.summary["rows"][0]["currency"] == "EUR"
    elsewhere = uploaded(small_lab(name="Elsewhere"), text, Options())
    assert elsewhere.state == "mapping"
