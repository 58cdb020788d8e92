"""Whatever somebody brings as a spreadsheet is read or refused in words, and what was written
out is read back the same.
"""

import csv
import io
import re
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.assets.models import Asset
from apps.assets.services.csv_import import confirm, upload
from apps.assets.spreadsheets import cells
from apps.assets.spreadsheets.csv_reader import read_lines
from apps.assets.spreadsheets.export import rows
from apps.assets.spreadsheets.formats import OWN, recognise
from apps.assets.spreadsheets.preview import KNOWN, LEFT_OUT, NEW, WRONG, Reading
from apps.assets.spreadsheets.rows import Options
from apps.core.csv_cells import unguard
from apps.core.errors import LabCarbonError
from apps.core.spreadsheets.days import day_of
from apps.core.spreadsheets.sources import read_source
from apps.core.text import is_unstorable
from apps.dashboard.csv_response import cell
from tests.builders import T0, SmallLab, small_lab
from tests.examples import examples

SEPARATORS = st.sampled_from([",", ";", "\t"])
HEADS = st.sampled_from(
    [
        *OWN,
        "Asset Name",
        "Asset Tag",
        "Purchase Cost",
        "device_type",
        "Role",
        "Serial number",
        "",
        "colour",
    ]
)
NASTY = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            "=cmd|' /C calc'!A0",
            "'=1",
            "\x00",
            "1e400",
            "NaN",
            "-0",
            "9" * 40,
            "2024-02-30",
            "0000-01-01",
            "99999-01-01",
            "2024-03-01",
            "1.13.2024",
            "gpu",
            "unknown",
            "yes",
            "1,500",
            "1.500",
            "2024-03-01T25:00Z",
            "9999-12-31T23:00Z",
            "1970-01-01",
            "0001-01-01",
            "999 months",
            '"',
            "\u202e",
            "İ",
            "٣",
            "1_000",
            "1e3",
            "Infinity",
            "A100-SXM4-80GB",
        ]
    ),
)


def in_words(error: LabCarbonError, *, hint: bool = False) -> None:
    """A refusal says what was wrong, where, and what mends it."""
    assert error.message
    assert error.field
    assert error.hint or not hint


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        found = list(read_lines(read_source(content).text)[1])
    except LabCarbonError as error:
        in_words(error)
    else:
        assert found


def sheet(heads: list[str], lines: list[list[str]], separator: str = ",") -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator)
    writer.writerow(heads)
    writer.writerows(lines)
    return out.getvalue()


@given(
    st.lists(HEADS, min_size=1, max_size=8),
    st.lists(st.lists(NASTY, max_size=9), max_size=6),
    SEPARATORS,
)
def test_any_cells_come_with_the_line_on_which_they_stand(
    heads: list[str], lines: list[list[str]], separator: str
) -> None:
    text = sheet(heads, lines, separator)
    try:
        header, found = read_lines(text)
        listed = list(found)
    except LabCarbonError as error:
        in_words(error)
        return
    assert len(header.fields) == len(heads) or separator != ","
    numbers = [line.number for line in listed]
    assert numbers == sorted(set(numbers))
    assert all(line.number >= 2 for line in listed)


@given(st.text() | st.text(alphabet="=+-@\uff1d\uff0b\uff0d\uff20;\t\r\n' a"))
def test_no_formula_leaves_and_every_text_comes_back(text: str) -> None:
    out = cell(text)
    for part in re.split(r"[;\t\r\n]", out):  # a spreadsheet can split there
        assert not part.lstrip().startswith(tuple("=+-@\uff1d\uff0b\uff0d\uff20"))
    assert unguard(out) == text
    assert cells.unescaped(out).strip() == text.strip()


@given(NASTY, st.booleans())
def test_a_cell_is_read_or_refused_never_half_read(text: str, strict: bool) -> None:
    readers: list[Any] = [
        lambda: day_of(text, "f"),
        lambda: cells.price_of(text, "f", strict=strict),
        lambda: cells.ug_of(text, "f"),
        lambda: cells.life_hours(text, "f"),
        lambda: cells.gigabytes_of(text, "f"),
        lambda: cells.yes_no(text, "f"),
        lambda: cells.months_after(day_of("2024-01-31", "f"), text, "f"),
        lambda: cells.moment_us(text, "f", ZoneInfo("Asia/Kolkata")),
    ]
    for reader in readers:
        try:
            value = reader()
        except LabCarbonError as error:
            in_words(error, hint=True)
        else:
            assert not isinstance(value, int) or value >= 0


@pytest.fixture
def lab(db: None) -> SmallLab:
    return small_lab()


_KNOWN = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
_HELD = settings(deadline=None, suppress_health_check=_KNOWN, max_examples=examples(60))


@_HELD
@given(st.lists(st.dictionaries(st.sampled_from(OWN), NASTY, max_size=10), min_size=1, max_size=6))
def test_every_line_of_ours_is_something_and_nothing_raises(
    lab: SmallLab, lines: list[dict[str, str]]
) -> None:
    text = sheet(list(OWN), [[line.get(name, "") for name in OWN] for line in lines])
    if is_unstorable(text):
        with pytest.raises(LabCarbonError):
            read_source(text.encode("utf-8", "surrogatepass"), "utf-8")
        return
    try:
        found = list(Reading(lab.lab, text, Options(bought_on="2024-03-01"), T0).rows())
    except LabCarbonError as error:
        in_words(error)
        return
    for row in found:
        assert row.outcome in {NEW, KNOWN, LEFT_OUT, WRONG}
        assert (row.draft is not None) == (row.outcome == NEW)
        assert bool(row.message) == (row.outcome != NEW)


_TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=40)
_LINE = st.fixed_dictionaries(
    {
        "name": _TEXT.filter(lambda text: bool(text.strip())),
        "kind": st.sampled_from(["gpu", "server", "other"]),
    },
    optional={
        "supplier": _TEXT,
        "location": _TEXT,
        "note": _TEXT,
        "life_years": st.sampled_from(["1", "4.5", "0.001"]),
        "embodied_kg": st.sampled_from(
            ["unknown", "0", "163.8", "0.000000001", "999999.999999999"]
        ),
        "price": st.sampled_from(["0", "1.5", "1234.567891"]),
        "in_use_since": st.just("2024-03-02T05:00Z"),
        "second_hand": st.sampled_from(["yes", "no"]),
        "amortisation": st.sampled_from(["linear", "sci"]),
    },
)


@_HELD
@given(st.lists(_LINE, min_size=1, max_size=5))
def test_what_was_written_out_is_read_back_the_same(
    lab: SmallLab, lines: list[dict[str, str]]
) -> None:
    text = sheet(
        list(OWN),
        [
            [cell(line.get(name, "EUR" if name == "currency" else "")) for name in OWN]
            for line in lines
        ],
    )

    def registered(content: str) -> str:
        Asset.objects.filter(lab=lab.lab).delete()
        row = upload(
            lab=lab.lab,
            file_name="x",
            content=content.encode(),
            options=Options(bought_on="2024-03-01"),
            by=None,
            now=T0,
        )
        confirm(row=row, by=None, now=T0)
        told = [[cell(value) for value in each] for each in rows(Asset.objects.filter(lab=lab.lab))]
        return sheet(list(OWN), told)

    first = registered(text)
    assert first.count("2024-02-29T23:00Z") >= len(lines)
    assert registered(first) == first


@given(st.lists(st.text(max_size=12), max_size=10))
def test_any_first_line_is_recognised_or_refused(heads: list[str]) -> None:
    try:
        header = recognise(heads)
    except LabCarbonError as error:
        in_words(error, hint=True)
    else:
        assert len(header.fields) == len(heads)
