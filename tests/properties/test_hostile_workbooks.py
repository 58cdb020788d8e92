"""Workbooks that attack: they are refused in words, or read as what they show."""

import io
import time
import zipfile
from datetime import date
from typing import Any

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.assets.spreadsheets.csv_reader import read_lines
from apps.core.errors import InvalidInput, LabCarbonError, TooLarge
from apps.core.spreadsheets.sources import read_source
from apps.core.spreadsheets.xlsx_reader import MAX_UNPACKED_BYTES, read_sheet

HEAD = ["name", "kind", "bought_on"]


def workbook(rows: list[list[Any]], *titles: str) -> bytes:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for title in titles:
        book.create_sheet(title)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def with_part(content: bytes, name: str, text: str) -> bytes:
    """Return a workbook with one part replaced or added."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as source,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for part in source.namelist():
            if part != name:
                target.writestr(part, source.read(part))
        target.writestr(name, text)
    return out.getvalue()


def sheet_xml(cells: str) -> str:
    return (
        '<?xml version="1.0"?><worksheet '
        'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
        f"{cells}</sheetData></worksheet>"
    )


GOOD = workbook([HEAD, ["a", "gpu", "2024-03-01"]])
SHEET = "xl/worksheets/sheet1.xml"


def refused(content: bytes, words: str, error: type[LabCarbonError] = InvalidInput) -> None:
    begin = time.process_time()
    with pytest.raises(error, match=words):
        read_source(content)
    assert time.process_time() - begin < 30


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    bomb = with_part(GOOD, "xl/media/zeros.bin", "0" * (MAX_UNPACKED_BYTES + 1))
    assert len(bomb) < 200_000
    refused(bomb, "larger than 32 MiB", TooLarge)


def test_many_parts_are_refused() -> None:
    out = io.BytesIO(GOOD)
    with zipfile.ZipFile(out, "a") as archive:
        for number in range(2_100):
            archive.writestr(f"xl/media/{number}", b"")
    refused(out.getvalue(), "larger than", TooLarge)


@pytest.mark.parametrize("part", [SHEET, "xl/workbook.xml", "xl/styles.xml"])
def test_entities_are_refused(part: str) -> None:
    entities = "".join(
        f'<!ENTITY l{i} "{f"&l{i - 1};" * 10 if i else "ha" * 10}">' for i in range(9)
    )
    text = f'<?xml version="1.0"?><!DOCTYPE x [{entities}]><x>&l8;</x>'
    refused(with_part(GOOD, part, text), "entities|damaged")


def test_an_external_entity_is_refused() -> None:
    text = (
        '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]>'
        + sheet_xml('<row r="1"><c t="inlineStr"><is><t>&f;</t></is></c></row>')[21:]
    )
    refused(with_part(GOOD, SHEET, text), "entities|damaged")


def test_a_formula_without_a_value_is_refused_and_one_with_a_value_is_that_value() -> None:
    refused(workbook([HEAD, ["a", "gpu", '=HYPERLINK("http://x")']]), "Row 2, column 3 contains a")
    cells = (
        '<row r="1"><c t="inlineStr"><is><t>name</t></is></c></row>'
        '<row r="2"><c t="str"><f>CONCATENATE("a","b")</f><v>ab</v></c></row>'
        '<row r="3"><c t="str"><f>[1]Other!A1</f><v>linked</v></c></row>'
    )
    assert read_sheet(with_part(GOOD, SHEET, sheet_xml(cells))).text == "name\nab\nlinked\n"
    cells += '<row r="4"><c t="e"><f>1/0</f><v>#DIV/0!</v></c></row>'
    refused(with_part(GOOD, SHEET, sheet_xml(cells)), "Row 4, column 1 contains the error")


def test_rows_and_columns_far_away_are_refused_in_time() -> None:
    far = '<row r="1"><c r="A1"><v>1</v></c></row><row r="900000000"><c><v>1</v></c></row>'
    refused(with_part(GOOD, SHEET, sheet_xml(far)), "30000 rows|damaged", LabCarbonError)
    million = sheet_xml("".join(f'<row r="{i}"/>' for i in range(1, 1_048_577)))
    refused(with_part(GOOD, SHEET, million), "more than", TooLarge)
    wide = sheet_xml('<row r="1"><c r="XFD1"><v>1</v></c></row>' * 3)
    text = read_sheet(with_part(GOOD, SHEET, wide)).text
    assert text == "" or len(text) < 10_000
    columns = workbook([[f"h{i}" for i in range(300)], list(range(300))])
    refused(columns, "more than 200 columns", TooLarge)


def test_a_stated_dimension_is_not_trusted() -> None:
    text = sheet_xml('<row r="1"><c t="inlineStr"><is><t>name</t></is></c></row>')
    text = text.replace("<sheetData>", '<dimension ref="A1:XFD1048576"/><sheetData>')
    begin = time.process_time()
    assert read_sheet(with_part(GOOD, SHEET, text)).text == "name\n"
    assert time.process_time() - begin < 10


def test_a_huge_cell_is_an_error_of_its_row() -> None:
    text = read_source(workbook([HEAD, ["x" * 30_000, "gpu", "2024-03-01"]])).text
    (line,) = read_lines(text)[1]
    assert "longer than 4000" in line.wrong


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PK\x03\x04rubbish", "damaged archive"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old or encrypted Excel"),
        (b"%PDF-1.7", "a PDF"),
        (GOOD[:600] + b"\x00" * 200 + GOOD[800:], "damaged"),
    ],
    ids=["archive", "old Excel", "PDF", "damaged"],  # GOOD contains the time
)
def test_files_of_another_type_are_refused(content: bytes, words: str) -> None:
    refused(content, words)


def test_another_archive_is_no_workbook() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("../../etc/passwd", "x")
    refused(out.getvalue(), "not an Excel workbook")


def test_hidden_sheets_are_not_read_and_others_are_named() -> None:
    book = openpyxl.Workbook()
    book.active.title = "Geheim"
    book.active.append(["password"])
    book.active.sheet_state = "hidden"
    book.create_sheet("Leer")
    book.create_sheet("Liste").append(["name"])
    book.create_sheet("Rest").append(["x"])
    out = io.BytesIO()
    book.save(out)
    sheet = read_sheet(out.getvalue())
    assert (sheet.name, sheet.others) == ("Liste", ("Leer", "Rest"))
    assert read_sheet(out.getvalue(), "Rest").text == "x\n"
    with pytest.raises(InvalidInput, match="no sheet 'Geheim'"):
        read_sheet(out.getvalue(), "Geheim")


def test_values_are_those_of_the_cells() -> None:
    row = [1.125, 3.84, 1322021012345, True, date(2024, 3, 1), "a\nb", 1e-7, None, "007"]
    text = read_sheet(workbook([row])).text
    assert text == "1.1250,3.84,1322021012345,yes,2024-03-01,a b,0.0000001,,007\n"
    refused(workbook([HEAD, [1234567890123456789, "gpu"]]), "more than 15 digits")


def read_or_refused(content: bytes) -> bool:
    """Return whether a file is read, or refused with a message and a field."""
    try:
        read_source(content)
    except LabCarbonError as error:
        return bool(error.message and error.field)
    return True


@given(st.data())
def test_any_damage_of_a_workbook_is_read_or_refused(data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(GOOD) - 1))
    damage = data.draw(st.binary(min_size=1, max_size=20))
    content = GOOD[:position] + damage + GOOD[position + len(damage) :]
    assert read_or_refused(content)


@given(st.text(max_size=400))
def test_any_part_is_read_or_refused(text: str) -> None:
    parts = ["[Content_Types].xml", "xl/workbook.xml", "xl/_rels/workbook.xml.rels", SHEET]
    for part in parts:
        changed = with_part(GOOD, part, text.encode("utf-8", "replace").decode())
        assert read_or_refused(changed)
