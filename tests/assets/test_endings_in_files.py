"""Ends of life and leases in files of four languages: preview, changes, undo, export."""

import csv
import io
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.assets.models import Asset, EmbodiedCharge, LifecycleEvent, RegisterImport
from apps.assets.services import (
    Draft,
    Embodied,
    Entry,
    Facts,
    closing_entries,
    register_many,
    reverse,
    standing_rows,
)
from apps.assets.services.csv_import import FileRefused, assign_columns, confirm, upload
from apps.assets.services.file_columns import Answers
from apps.assets.services.recompute import differing
from apps.assets.services.undo import redo_import, undo_import
from apps.assets.spreadsheets import cells
from apps.assets.spreadsheets.endings import ending_of, is_lease, stated_ending
from apps.assets.spreadsheets.export import rows
from apps.assets.spreadsheets.formats import OWN, recognise
from apps.assets.spreadsheets.headings import guess
from apps.assets.spreadsheets.rows import Options
from apps.core.errors import InvalidInput
from apps.core.jobs import run_until_idle
from apps.dashboard.csv_response import cell
from tests.assets.books_by_year import books_by_year
from tests.assets.support import KG, borne
from tests.assets.test_undo import NOW, asset, imported, read, undo
from tests.builders import SmallLab, small_lab
from tests.examples import examples

pytestmark = pytest.mark.django_db
HEAD = "name,kind,tag,bought_on,in_use_since,embodied_kg,embodied_includes_end_of_life"
LIFE = "laptop,INV-1,2022-01-01,2022-01-01,100,no"


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


@pytest.fixture
def elsewhere() -> SmallLab:
    return small_lab(name="Elsewhere")


def events(lab: SmallLab, tag: str) -> list[tuple[Any, ...]]:
    """Return the active events of an asset."""
    return [
        (each.kind, each.end_of_life, each.mass_g, each.counterpart, each.total_ug)
        for each in standing_rows(asset(tag))
    ]


def confirmed(lab: SmallLab, row: RegisterImport) -> RegisterImport:
    confirm(row=row, by=lab.owner, now=NOW)
    run_until_idle(worker="test")
    row.refresh_from_db()
    return row


def mapped(lab: SmallLab, text: str, decimal: str = "") -> RegisterImport:
    """Read a file in other columns as guessed."""
    row = upload(
        lab=lab.lab, file_name="liste.csv", content=text.encode(),
        options=Options(currency="EUR"), by=lab.owner, now=NOW,
    )  # fmt: skip
    fields = {each["key"]: each["field"] for each in row.summary["questions"]["columns"]}
    assign_columns(row=row, answers=Answers(fields, "", decimal), by=lab.owner, now=NOW)
    row.refresh_from_db()
    return row


@pytest.mark.parametrize(
    ("heading", "field"),
    [
        ("Abgangsart", "end_of_life"), ("Motif de sortie", "end_of_life"),
        ("Motivo de baja", "end_of_life"), ("Disposal method", "end_of_life"),
        ("Ende der Nutzung", "ended_on"), ("Date de sortie", "ended_on"),
        ("Fecha de baja", "ended_on"), ("End of use", "ended_on"),
        ("Gewicht (kg)", "mass_kg"), ("Poids [g]", "mass_g"), ("Peso", "mass_kg"),
        ("Weight (lb)", ""), ("Maße", ""), ("Leasinggeber", "lessor"), ("Bailleur", "lessor"),
        ("Arrendador", "lessor"), ("Lessor", "lessor"), ("Leasingbeginn", "lease_start"),
        ("Début du leasing", "lease_start"), ("Inicio del leasing", "lease_start"),
        ("Leasingende", "lease_end"), ("Fin de leasing", "lease_end"),
        ("Fin del leasing", "lease_end"), ("Beschaffungsart", "leased"),
        ("Mode d’acquisition", "leased"), ("Empfänger", "recipient"), ("Acheteur", "recipient"),
        ("Comprador", "recipient"),
    ],
)  # fmt: skip
def test_headings_of_four_languages(heading: str, field: str) -> None:
    assert guess(heading) == field


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("gestohlen", "stolen"), ("Volé", "stolen"), ("robado", "stolen"), ("stolen", "stolen"),
        ("verschrottet 2023", "recycled"), ("mis au rebut", "recycled"), ("reciclado", "recycled"),
        ("gespendet", "donated"), ("donné", "donated"), ("donado", "donated"),
        ("verkauft", "resold"), ("vendu", "resold"), ("vendido", "resold"), ("sold", "resold"),
        ("verloren", "lost"), ("perdu", "lost"), ("perdido", "lost"), ("Lost/Stolen", ""),
        ("entsorgt", ""), ("lease_returned", "lease_returned"),
        ("Leasing beendet", "lease_returned"), ("Restitué au bailleur", "lease_returned"),
    ],
)  # fmt: skip
def test_words_of_four_languages(word: str, kind: str) -> None:
    status, stated = ending_of(word), stated_ending(word)
    assert status is not None
    assert (status.event, status.end_of_life) == ("dispose", kind)
    assert stated == status


def test_words_that_mean_an_end_only_in_their_column() -> None:
    for word in ("Leasing", "zurückgegeben", "restitué", "devuelto", "vol", "don"):
        assert ending_of(word) is None
        assert stated_ending(word)
    assert stated_ending("-") is None
    assert (is_lease("Crédit-bail"), is_lease("Kauf"), is_lease("soon")) == (True, False, None)


@pytest.mark.parametrize(
    ("text", "decimal", "mass_g"),
    [("12,5", ",", 12_500), ("12.5 kg", "", 12_500), ("800 g", "", 800), ("1,2 t", ",", 1_200_000)],
)
def test_masses(text: str, decimal: str, mass_g: int) -> None:
    assert cells.mass_g_of(text, "mass_kg", strict=False, decimal=decimal) == mass_g


@pytest.mark.parametrize("text", ["0", "0.0004", "heavy", "-3", "12 lb", "1.500", "1e9"])
def test_masses_that_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        cells.mass_g_of(text, "mass_kg", strict=False)
    assert caught.value.field == "mass_kg"
    assert caught.value.hint


GERMAN = """Gerät;Inventarnummer;Kaufdatum;Zustand;Abgangsart;Abgangsdatum;Gewicht (kg);Empfänger;\
Beschaffungsart;Leasinggeber;Leasingbeginn;Leasingende
Laptop A;A;13.04.2021;;gestohlen;01.02.2023;1,8;;Kauf;;;
Server B;B;13.04.2019;;verschrottet;01.02.2023;25,5;Entsorger GmbH;;;;
Laptop C;C;13.04.2021;gespendet;;01.02.2023;;Schule;;;;
Laptop D;D;;in Betrieb;;;1,8;;Leasing;Leasing AG;01.05.2022;01.05.2025
Laptop E;E;;;;;;;;Leasing AG;01.05.2022;01.05.2025
Laptop F;F;;;;;;;;Leasing AG;01.05.2022;01.05.2031
Laptop G;G;13.04.2021;;gestohlen;;;;;;;
Laptop H;H;13.04.2021;ausgemustert;;01.02.2023;;;;;;
"""


def test_a_german_list_is_registered_with_its_lives(lab: SmallLab) -> None:
    row = mapped(lab, GERMAN, ",")
    assert row.summary["counts"] == {"new": 7, "left_out": 1}
    by_name = {each["name"]: each for each in row.summary["rows"]}
    stolen = by_name["Laptop A"]
    assert (stolen["end_of_life"], stolen["ended_on"], stolen["mass_g"]) == (
        "stolen", "2023-02-01", 1_800,
    )  # fmt: skip
    assert by_name["Laptop G"]["message"].startswith("skipped: end of life is 'gestohlen'")
    leased = by_name["Laptop F"]
    assert (leased["is_leased"], leased["lessor"]) == (True, "Leasing AG")
    for name in ("Laptop D", "Laptop F"):
        assert "lease" in {remark["code"] for remark in by_name[name]["remarks"]}
    confirmed(lab, row)
    assert events(lab, "A")[-1] == ("dispose", "stolen", 1_800, "", None)
    # 25.5 kg × 4.68568 g
    assert events(lab, "B")[-1] == ("dispose", "recycled", 25_500, "Entsorger GmbH", 119_484_840)
    assert events(lab, "C")[-1][:4] == ("dispose", "donated", None, "Schule")
    kinds = {tag: [event[0] for event in events(lab, tag)] for tag in "DEFH"}
    assert kinds == {
        "D": ["lease", "deploy"],
        "E": ["lease", "deploy", "dispose"],
        "F": ["lease"],
        "H": ["purchase", "deploy", "retire"],
    }
    assert events(lab, "E")[-1][1] == "lease_returned"
    assert events(lab, "D")[0][3] == "Leasing AG"
    assert differing(lab=lab.lab, repair=False) == []


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (
            (
                "Nom;N° d'inventaire;Date d'achat;Motif de sortie;Date de sortie;Poids (kg)\n"
                "Portable;A;2021-04-13;volé;2023-02-01;1.8\n"
                "Serveur;B;2021-04-13;vendu;2023-02-01;20\n"
            ),
            ["stolen", "resold"],
        ),
        (
            (
                "Equipo;N.º de inventario;Fecha de compra;Motivo de baja;Fecha de baja;Peso (kg)\n"
                "Portátil;A;2021-04-13;robado;2023-02-01;1.8\nServidor;B;2021-04-13;reciclado;"
                "2023-02-01;20\n"
            ),
            ["stolen", "recycled"],
        ),
        (
            (
                "Device,Asset Tag,Purchase date,Disposal method,Disposal date,Weight (kg)\n"
                "Laptop,A,2021-04-13,stolen,2023-02-01,1.8\n"
                "Server,B,2021-04-13,donated,2023-02-01,20\n"
            ),
            ["stolen", "donated"],
        ),
    ],
)
def test_lists_of_other_languages(lab: SmallLab, text: str, kinds: Sequence[str]) -> None:
    row = mapped(lab, text)
    assert row.summary["counts"] == {"new": 2}
    confirmed(lab, row)
    found = [events(lab, tag)[-1][:3] for tag in "AB"]
    masses = [1_800, 20_000]
    assert found == [("dispose", kind, mass) for kind, mass in zip(kinds, masses, strict=True)]


def test_a_vendors_end_of_support_is_no_end_of_life_of_a_known_format() -> None:
    header = recognise(["Asset Name", "Asset Tag", "Purchase Cost", "End of life", "Weight (kg)"])
    assert (header.origin, header.fields[3:]) == ("Snipe-IT", ("", "mass_kg"))


FIRST = f"""{HEAD},retired_on,disposed_on,end_of_life,mass_kg,recipient,leased,lessor
A,{LIFE},,,,,,,
"""


def changed(**values: str) -> str:
    """Return the file with another life of its asset."""
    names = FIRST.splitlines()[0].split(",")
    line = dict(zip(names, FIRST.splitlines()[1].split(","), strict=True)) | values
    return f"{','.join(names)}\n{','.join(line[name] for name in names)}\n"


def test_a_changed_file_shows_the_end_and_an_undo_takes_it_back(lab: SmallLab) -> None:
    imported(lab, FIRST)
    before = books_by_year(lab)
    text = changed(
        disposed_on="2024-01-01", end_of_life="recycled", mass_kg="2", recipient="Recycler",
        leased="yes", lessor="Leasing AG",
    )  # fmt: skip
    row = read(lab, text)
    (line,) = row.summary["rows"]
    assert {each["field"]: (each["before"], each["after"]) for each in line["changes"]} == {
        "leased": ("no", "yes"), "lessor": ("", "Leasing AG"), "disposed_on": ("", "2024-01-01"),
        "end_of_life": ("", "recycled"), "mass": ("", "2 kg"), "recipient": ("", "Recycler"),
    }  # fmt: skip
    confirmed(lab, row)
    assert [event[0] for event in events(lab, "INV-1")] == ["lease", "deploy", "dispose"]
    assert events(lab, "INV-1")[-1] == ("dispose", "recycled", 2_000, "Recycler", 9_371_360)
    after = books_by_year(lab)
    again = read(lab, text)
    assert again.summary["counts"] == {"known": 1}
    undo(lab, row)
    assert books_by_year(lab) == before
    assert [event[0] for event in events(lab, "INV-1")] == ["purchase", "deploy"]
    redo_import(row=row, leave_out=(), by=lab.owner, now=NOW + 2)
    assert books_by_year(lab) == after
    assert differing(lab=lab.lab, repair=False) == []


def test_a_corrected_kind_and_mass_change_the_default_and_nothing_else(lab: SmallLab) -> None:
    gone = {"disposed_on": "2024-01-01", "end_of_life": "recycled", "mass_kg": "2"}
    imported(lab, changed(**gone, recipient="Recycler"))
    second = imported(lab, changed(**gone | {"mass_kg": "3"}))
    assert events(lab, "INV-1")[-1] == ("dispose", "recycled", 3_000, "Recycler", 14_057_040)
    third = imported(lab, changed(**gone | {"mass_kg": "3", "end_of_life": "stolen"}))
    assert events(lab, "INV-1")[-1] == ("dispose", "stolen", 3_000, "Recycler", None)
    assert (None, "end_of_life") not in borne(asset("INV-1"))
    undo(lab, third)
    undo_import(row=second, leave_out=(), by=lab.owner, now=NOW + 2)
    assert events(lab, "INV-1")[-1] == ("dispose", "recycled", 2_000, "Recycler", 9_371_360)


def test_entered_emissions_stay_when_the_mass_is_corrected(lab: SmallLab) -> None:
    head = f"{HEAD},disposed_on,end_of_life,mass_kg,end_of_life_kg,end_of_life_source\n"
    imported(lab, f"{head}A,{LIFE},2024-01-01,recycled,2,3.5,invoice 7\n")
    imported(lab, f"{head}A,{LIFE},2024-01-01,recycled,4,,\n")
    assert events(lab, "INV-1")[-1] == ("dispose", "recycled", 4_000, "", 3_500 * KG // 1000)
    imported(lab, f"{head}A,{LIFE},2024-01-01,recycled,4,0,weighed\n")
    assert events(lab, "INV-1")[-1][4] == 0


def test_a_reversed_end_is_not_recorded_again_by_its_details(lab: SmallLab) -> None:
    gone = {"disposed_on": "2024-01-01", "end_of_life": "stolen"}
    imported(lab, changed(**gone))
    reverse(event=asset("INV-1").events.get(kind="dispose"), by=lab.owner, now=NOW)
    row = read(lab, changed(**gone, mass_kg="2"))
    assert row.summary["counts"] == {"known": 1}


def test_a_later_list_with_the_end_changes_the_asset(lab: SmallLab) -> None:
    head = "Gerät;Inventarnummer;Kaufdatum;Zustand;Abgangsdatum\n"
    confirmed(lab, mapped(lab, f"{head}Laptop;A;2021-04-13;in Betrieb;\n"))
    row = read(lab, f"{head}Laptop;A;2021-04-13;gestohlen;2023-02-01\n")
    (line,) = row.summary["rows"]
    assert {each["field"] for each in line["changes"]} == {"disposed_on", "end_of_life"}
    confirmed(lab, row)
    assert events(lab, "A")[-1][:2] == ("dispose", "stolen")


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"disposed_on": "2024-01-01", "end_of_life": "burnt"}, "end_of_life", "not an end"),
        ({"end_of_life": "stolen"}, "disposed_on", "needs a date"),
        ({"mass_kg": "2"}, "disposed_on", "needs a date"),
        ({"disposed_on": "2024-01-01", "mass_kg": "two"}, "mass_kg", "not a mass"),
        ({"disposed_on": "2024-01-01", "mass_kg": "0"}, "mass_kg", "is 0"),
        ({"disposed_on": "2024-01-01", "mass_kg": "99999"}, "mass_kg", "out of range"),
        ({"disposed_on": "2021-01-01"}, "", "earlier than the purchase"),
        ({"disposed_on": "2024-01-01", "retired_on": "2025-01-01"}, "", "disposed of"),
        ({"leased": "perhaps"}, "leased", "neither yes nor no"),
        ({"leased": "no", "lessor": "Leasing AG"}, "lessor", "not leased"),
    ],
)
def test_wrong_values_are_reported_by_line(
    lab: SmallLab, values: dict[str, str], field: str, words: str
) -> None:
    row = read(lab, changed(**values))
    (wrong,) = row.summary["wrong"]
    assert (wrong["line"], wrong["field"]) == (2, field)
    assert words in wrong["message"]
    assert wrong["hint"] or not field
    with pytest.raises(FileRefused):
        confirm(row=row, by=lab.owner, now=NOW)


def test_contradictions_of_a_line_are_errors(lab: SmallLab) -> None:
    head = "Gerät;Inventarnummer;Kaufdatum;Zustand;Abgangsart;Abgangsdatum\n"
    row = mapped(lab, f"{head}Laptop;A;2021-04-13;gestohlen;gespendet;2023-02-01\n")
    assert row.summary["wrong"][0]["field"] == "end_of_life"
    text = f"{HEAD},second_hand,leased\nA,{LIFE},yes,yes\n"
    assert read(lab, text).summary["wrong"][0]["field"] == "leased"
    text = f"{HEAD},disposed_on,end_of_life_source\nA,{LIFE},2024-01-01,invoice\n"
    assert read(lab, text).summary["wrong"][0]["field"] == "end_of_life_kg"


def test_a_machine_is_not_disposed_of_without_its_parts(lab: SmallLab) -> None:
    head = "name,kind,tag,parent,bought_on,disposed_on\n"
    machine, card = "S,server,S,,2022-01-01,{}\n", "C,gpu,C,S,2022-01-01,{}\n"
    row = read(lab, head + machine.format("2024-01-01") + card.format(""))
    (wrong,) = row.summary["wrong"]
    assert (wrong["line"], wrong["field"]) == (2, "disposed_on")
    imported(lab, head + machine.format("") + card.format(""))
    row = read(lab, head + machine.format("2024-01-01"))
    assert [each["field"] for each in row.summary["wrong"]] == ["disposed_on"]
    imported(lab, head + card.format("2024-01-01") + machine.format("2024-01-01"))
    assert {asset("S").state, asset("C").state} == {"disposed"}


def as_csv(lab: SmallLab) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(OWN)
    for row in rows(Asset.objects.filter(lab=lab.lab)):
        writer.writerow([cell(value) for value in row])
    return text.getvalue()


_days = st.integers(0, 700)
_text = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=12)
_lives = st.fixed_dictionaries(
    {
        "opening": st.sampled_from(["purchase", "second_hand", "lease"]),
        "who": _text.map(str.strip),
        "retired": st.none() | _days,
        "gone": st.none() | _days,
        "end_of_life": st.sampled_from(
            ["", "resold", "donated", "recycled", "lost", "stolen", "lease_returned"]
        ),
        "mass_g": st.none() | st.integers(1, 10**7),
        "recipient": _text.map(str.strip),
        "emitted": st.none() | st.tuples(st.integers(0, 10**13), _text.map(str.strip)),
    }
)


@settings(
    deadline=None,
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(_lives, min_size=1, max_size=4))
def test_export_and_import_change_nothing(
    lab: SmallLab, elsewhere: SmallLab, lives: list[dict[str, Any]]
) -> None:
    day_us = 24 * 3_600_000_000
    begin = NOW - 900 * day_us
    drafts = []
    for number, life in enumerate(lives):
        emitted = life["emitted"]
        gone = life["gone"]
        if gone is not None and life["retired"] is not None:
            gone += life["retired"]
        ends: dict[str, Any] = {}
        if gone is not None:
            ends = {
                "ended_us": begin + gone % 890 * day_us,
                "end_of_life": life["end_of_life"],
                "mass_g": life["mass_g"],
                "counterpart": life["recipient"],
                "embodied": Embodied(emitted[0], source=emitted[1]) if emitted else None,
            }
        if life["retired"] is not None and (gone is None or gone < 890):
            ends["retired_us"] = begin + life["retired"] * day_us
        opening = Entry(
            life["opening"],
            begin,
            embodied=Embodied(100 * KG, includes_end_of_life=False, source="a test"),
            life_hours=4 * 8_760,
            counterpart=life["who"] if life["opening"] == "lease" else "",
        )
        facts = Facts(f"asset {number}", "laptop", tag=f"T-{number}")
        drafts.append(Draft(facts, opening, begin, entries=closing_entries(**ends)))
    Asset.with_removed.all().delete()
    register_many(lab=lab.lab, drafts=drafts, by=None, now=NOW)
    text = as_csv(lab)
    counts = read(lab, text).summary["counts"]
    assert counts == {"known": len(lives)}
    imported(elsewhere, text)
    assert as_csv(elsewhere) == text

    def history(each: SmallLab) -> list[tuple[Any, ...]]:
        names = ("asset__tag", "kind", "hour", "total_ug", "source", "end_of_life", "mass_g")
        found = LifecycleEvent.objects.filter(asset__lab=each.lab)
        return sorted(found.values_list(*names, "counterpart"), key=repr)

    def charges(each: SmallLab) -> list[tuple[Any, ...]]:
        found = EmbodiedCharge.objects.filter(lab=each.lab)
        return sorted(found.values_list("asset__tag", "from_hour", "to_hour", "kind", "amount_ug"))

    assert history(elsewhere) == history(lab)
    assert charges(elsewhere) == charges(lab) != []
