"""Time-of-use tariffs and files of hourly prices, against oracles that share no code."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.core.errors import InvalidInput
from apps.fleet.price_files import BadPriceRow, parse_prices
from apps.fleet.tariffs import BadTariff, hours_of, parse_tariff, price_of, range_text
from tests.examples import examples

BERLIN = ZoneInfo("Europe/Berlin")
WORKDAYS = "Mon-Fri 07-20 0.34\nother 0.22"


def hour(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) // 3600


def test_a_tariff_has_a_price_for_each_hour_of_a_week() -> None:
    tariff = parse_tariff(WORKDAYS)
    assert len(tariff.week) == 168
    assert [tariff.week[7], tariff.week[19], tariff.week[20], tariff.week[6]] == [
        340_000, 340_000, 220_000, 220_000,
    ]  # fmt: skip
    assert tariff.week[5 * 24 + 12] == 220_000  # Saturday


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Mon-Fri 07-20 0.34", "103 hours of the week have no price, the first on Mon at 00:00"),
        ("", "168 hours of the week have no price"),
        ("Mon-Fri 20-07 0.34\nother 1", "Line 1: The hours are not from 0 to 24"),
        ("Mon-Fri 7-25 0.34\nother 1", "Line 1: The hours"),
        ("Mon 07-20 0.34\nMon-Wed 19-21 0.3\nother 1", "Line 2: Mon 19:00 has a price"),
        ("Mon-Fry 07-20 0.34\nother 1", "Line 1: 'Mon-Fry' are not days"),
        ("Fri-Mon 07-20 0.34\nother 1", "the first day is after the last"),
        ("Mon 07-20 cheap\nother 1", "Line 1: 'cheap' is not a number"),
        ("Mon 07-20 -0.1\nother 1", "Line 1: The price is below zero."),
        ("daily 0.3\nother 1", "Line 1: 'daily 0.3' is not a period"),
        ("other 1\nother 2", "Line 2: “other” is there twice."),
        ("other 1e9", "is not a number"),
        ("other 10000000", "is not a possible price"),
        ("other 1\n" * 61, "at most 60 lines"),
    ],
)
def test_wrong_tariffs_name_their_line(text: str, words: str) -> None:
    with pytest.raises(BadTariff) as error:
        parse_tariff(text)
    assert words in error.value.message


def test_all_wrong_lines_are_listed() -> None:
    with pytest.raises(BadTariff) as error:
        parse_tariff("x\nother 1\nMon 1-2 y")
    assert [text[:6] for text in error.value.errors] == ["Line 1", "Line 3"]


@pytest.mark.parametrize(
    ("day", "count", "night_hours"),
    [("2026-03-29", 23, 6), ("2026-10-25", 25, 8), ("2026-11-26", 24, 7)],
)
def test_days_of_23_and_25_hours(day: str, count: int, night_hours: int) -> None:
    """Each UTC hour belongs to the local hour in which it begins."""
    tariff = parse_tariff("Mon-Sun 07-24 0.34\nother 0.22")
    start = int(datetime.fromisoformat(f"{day}T00:00").replace(tzinfo=BERLIN).timestamp()) // 3600
    prices = [value for _, value in hours_of(tariff, BERLIN, start, start + count)]
    assert prices == [220_000] * night_hours + [340_000] * 17


def test_a_zone_off_the_hour() -> None:
    """01:00 UTC is 06:30 in India, in the local hour that begins at 06:00."""
    tariff = parse_tariff("Mon-Sun 07-24 0.34\nother 0.22")
    first = hour("2026-11-27T01:00Z")
    found = hours_of(tariff, ZoneInfo("Asia/Kolkata"), first, first + 2)
    assert [price for _, price in found] == [220_000, 340_000]


@settings(max_examples=examples(60))
@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 23), st.integers(0, 10**6)),
        max_size=30,
        unique_by=lambda each: each[:2],
    ),
    st.integers(0, 10**6),
    st.sampled_from(
        ["Europe/Berlin", "UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]
    ),
    st.integers(hour("2020-01-01T00:00Z"), hour("2030-01-01T00:00Z")),
)
def test_prices_of_hours_are_those_of_an_oracle(
    periods: list[tuple[int, int, int]], rest: int, zone_name: str, first_hour: int
) -> None:
    """The oracle walks in minutes of local time and reads the periods by name of the day."""
    names = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    lines = [
        f"{names[day][:3]} {first}-{first + 1} {price // 10**6}.{price % 10**6:06}"
        for day, first, price in periods
    ]
    tariff = parse_tariff("\n".join([*lines, f"other {rest // 10**6}.{rest % 10**6:06}"]))
    zone = ZoneInfo(zone_name)
    expected = {(names[day], first): price for day, first, price in periods}
    begin = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=first_hour)
    for number, (at, price) in enumerate(hours_of(tariff, zone, first_hour, first_hour + 30)):
        local = (begin + timedelta(hours=number)).astimezone(zone)
        assert at == first_hour + number
        assert price == expected.get((local.strftime("%A"), int(local.strftime("%H"))), rest)


@pytest.mark.parametrize(
    ("text", "scale", "expected"),
    [
        ("0.31", 1, 310_000), ("-0.0155", 1, -15_500), ("45.67", 1000, 45_670),
        ("0.0000005", 1, 1), ("-0.0000005", 1, 0), ("-0.0000006", 1, -1), ("0.0004", 1000, 0),
        ("0.0005", 1000, 1), (" 12 ", 1, 12_000_000),
    ],
)  # fmt: skip
def test_prices_are_rounded_half_up(text: str, scale: int, expected: int) -> None:
    assert price_of(text, scale) == expected


@settings(max_examples=examples(100))
@given(st.integers(-(10**12), 10**12), st.sampled_from([1, 1000]))
def test_prices_equal_exact_fractions(tiny: int, scale: int) -> None:
    text = f"{'-' if tiny < 0 else ''}{abs(tiny) // 10**9}.{abs(tiny) % 10**9:09}"
    exact = Fraction(tiny, 10**9) * 10**6 / scale * 2 + 1
    assert price_of(text, scale) == exact.numerator // (2 * exact.denominator)


def test_ranges() -> None:
    assert range_text(220_000, 340_000) == "0.22 to 0.34"
    assert range_text(0, 0) == "0"
    assert range_text(-12_000_000, 10_000_000) == "-12 to 10"


def test_a_file_of_prices() -> None:
    file = parse_prices(
        "hour,price_per_mwh\n2026-11-27T14:00+01:00,91.5\n2026-11-27 14:00Z,-3.21\n\n"
    )
    assert file.bad_rows == ()
    assert file.hours == {
        hour("2026-11-27T13:00Z"): 91_500,
        hour("2026-11-27T14:00Z"): -3_210,
    }
    assert parse_prices("price_per_kwh,hour\n0.5,2026-11-27T14:00Z\n").hours == {
        hour("2026-11-27T14:00Z"): 500_000
    }


def test_the_repeated_local_hour_is_two_hours() -> None:
    file = parse_prices(
        "hour,price_per_kwh\n2026-10-25T02:00+02:00,0.1\n2026-10-25T02:00+01:00,0.2\n"
    )
    assert len(file.hours) == 2
    assert not file.bad_rows


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("2026-11-27T14:00,0.1", "is not a time with its offset"),
        ("2026-11-27,0.1", "is not a time with its offset"),
        ("yesterday,0.1", "is not a time with its offset"),
        ("2026-11-27T14:15Z,0.1", "is not the start of a UTC hour"),
        ("2026-11-27T14:00+05:30,0.1", "is not the start of a UTC hour"),
        ("1969-12-31T23:00Z,0.1", "is not in the years"),
        ("0001-01-01T00:00+14:00,0.1", "hour:"),
        ("2026-11-27T14:00Z,", "price_per_kwh: '' is not a number"),
        ("2026-11-27T14:00Z,NaN", "is not a number"),
        ("2026-11-27T14:00Z,=1+1", "is not a number"),
        ("2026-11-27T14:00Z,2000000", "is not a possible price"),
        ("2026-11-27T14:00Z", "The number of columns"),
        ("2026-11-27T13:00Z,0.3", "the same hour is on line 2"),
        ('"2026,0.1', "not a row of a CSV file"),
    ],
)
def test_bad_rows_have_their_line(row: str, words: str) -> None:
    file = parse_prices(f"hour,price_per_kwh\n2026-11-27T13:00Z,0.1\n{row}\n")
    [bad] = file.bad_rows
    assert isinstance(bad, BadPriceRow)
    assert bad.line == 3
    assert words in bad.reason


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "The columns are not"),
        ("hour,price_per_kwh\n", "no rows"),
        ("hour;price_per_kwh\n", "semicolons"),
        ("hour,price_per_kwh,price_per_mwh\n1,2,3\n", "The columns are not"),
        ("hour,price_per_kwh,note\n1,2,3\n", "The columns are not"),
        ("hour,price_per_kwh\n" + "x,1\n" * 20_001, "more than 20,000 rows"),
    ],
)
def test_errors_of_the_whole_file(text: str, words: str) -> None:
    with pytest.raises(InvalidInput) as error:
        parse_prices(text)
    assert words in error.value.message
