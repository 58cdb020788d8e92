"""/factors/import/ and /factors/import/<uuid>/: a file of own factors, previewed and confirmed."""

import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from apps.accounts.models import AuditEntry
from apps.carbon.models import EmissionFactor, HourFactor
from apps.carbon.own_factors.models import OwnFactorFile
from apps.carbon.own_factors.parsing import MAX_BYTES
from apps.core.jobs import run_until_idle
from tests.builders import SmallLab
from tests.dashboard.support import (
    HOSTILE,
    assert_needs_sign_in,
    assert_only,
    fields_with_errors,
    queries,
    text_of,
    use,
)

pytestmark = pytest.mark.django_db
PATH = "/factors/import/"
HEADER = "zone,basis,resolution,year,month,hour_utc,g_per_kwh,source,licence\n"
YEAR = "DE,lifecycle,annual_country,2026,,,310,Energy report,own\n"
MONTH = "DE,lifecycle,monthly,2026,11,,295.5,Energy report,own\n"
HOUR = "DE,lifecycle,hourly_actual,,,2026-11-02T12:00Z,212,Meter,own\n"
GOOD = HEADER + YEAR + MONTH + HOUR


def upload(client: Client, text: str | bytes, name: str = "own.csv") -> str:
    """Upload a file; return the address of its preview."""
    content = text.encode() if isinstance(text, str) else text
    response = client.post(PATH, {"file": SimpleUploadedFile(name, content)})
    assert response.status_code == 302, text_of(response)
    return str(response["Location"])


def bad_lines(page: str) -> list[int]:
    return [int(line) for line in re.findall(r'data-bad-line="(\d+)"', page)]


def imported(client: Client, text: str) -> str:
    """Import a file; return its address."""
    address = upload(client, text)
    assert client.post(address, {"action": "import"}).status_code == 302
    run_until_idle(worker="test")
    return address


def test_a_file_is_previewed_and_written_when_confirmed(owner: Client, lab: SmallLab) -> None:
    use(lab)
    address = upload(owner, "\ufeff" + GOOD)
    page = text_of(owner.get(address))
    assert 'data-new="3" data-changed="0" data-same="0" data-wrong="0" data-confirmed="no"' in page
    assert f'data-site="{lab.site.pk}" data-months="1"' in page
    assert "November 2026" in page
    assert 'data-ug-per-kwh="295500000"' in page
    assert "Germany 2025" in page  # applies before
    assert 'data-hours="1"' in page
    assert not EmissionFactor.objects.filter(lab=lab.lab).exists()
    assert not HourFactor.objects.exists()

    assert owner.post(address, {"action": "import"}).status_code == 302
    assert 'role="status"' in text_of(owner.get(address))
    run_until_idle(worker="test")
    assert 'data-confirmed="yes"' in text_of(owner.get(address))
    own = EmissionFactor.objects.filter(lab=lab.lab).order_by("resolution")
    assert [(row.resolution, row.month, row.edition, row.ug_per_kwh) for row in own] == [
        ("annual_country", 0, 1, 310_000_000),
        ("hourly_actual", 0, 1, None),
        ("monthly", 11, 1, 295_500_000),
    ]
    assert HourFactor.objects.get().ug_per_kwh == 212_000_000
    entry = AuditEntry.objects.get(action="own_factors.imported")
    assert entry.user == lab.owner
    assert (entry.details["new"], entry.details["months"]) == (3, "2026-11")
    assert OwnFactorFile.objects.get().content == ""
    zone = text_of(owner.get("/factors/DE/"))
    assert "data-own" in zone
    assert "Energy report" in zone


def test_the_same_file_again_changes_nothing(owner: Client, lab: SmallLab) -> None:
    imported(owner, GOOD)
    rows = list(EmissionFactor.objects.order_by("pk").values())
    address = upload(owner, GOOD)
    page = text_of(owner.get(address))
    assert 'data-new="0" data-changed="0" data-same="3"' in page
    assert 'value="import"' not in page
    assert owner.post(address, {"action": "import"}).status_code == 409
    assert list(EmissionFactor.objects.order_by("pk").values()) == rows
    assert AuditEntry.objects.filter(action="own_factors.imported").count() == 1


def test_a_second_confirmation_changes_nothing(owner: Client, lab: SmallLab) -> None:
    address = imported(owner, GOOD)
    assert owner.post(address, {"action": "import"}).status_code == 302
    assert EmissionFactor.objects.filter(lab=lab.lab).count() == 3
    assert AuditEntry.objects.filter(action="own_factors.imported").count() == 1


def test_a_changed_value_is_a_new_edition(owner: Client, lab: SmallLab) -> None:
    imported(owner, GOOD)
    address = imported(owner, HEADER + YEAR.replace("310", "320") + MONTH)
    page = text_of(owner.get(address))
    assert 'data-new="0" data-changed="1" data-same="1"' in page
    old, new = EmissionFactor.objects.filter(lab=lab.lab, resolution="annual_country").order_by(
        "edition"
    )
    assert (old.edition, old.superseded_us is None) == (1, False)
    assert (new.edition, new.ug_per_kwh, new.superseded_us) == (2, 320_000_000, None)


def test_an_outdated_preview_is_renewed_instead_of_imported(owner: Client, lab: SmallLab) -> None:
    first, second = upload(owner, GOOD), upload(owner, GOOD.replace("310", "320"))
    owner.post(first, {"action": "import"})
    response = owner.post(second, {"action": "import"})
    assert response.status_code == 409
    page = text_of(response)
    assert 'data-new="0" data-changed="1" data-same="2"' in page
    assert owner.post(second, {"action": "import"}).status_code == 302
    assert (
        EmissionFactor.objects.get(
            lab=lab.lab, resolution="annual_country", superseded_us=None
        ).ug_per_kwh
        == 320_000_000
    )


def test_bad_rows_are_listed_and_nothing_is_imported(owner: Client, lab: SmallLab) -> None:
    rows = [
        YEAR.replace("310", value)
        for value in ("0", "", "-5", "NaN", "1e400", "3100", "=1+1", "3,1", "9" * 30)
    ]
    rows = [f'{row[:41]}"{row[41:44]}"{row[44:]}' if ",3,1," in row else row for row in rows]
    rows += [
        YEAR,
        YEAR,  # the same zone and year
        YEAR.replace("DE,", "XX,"),
        YEAR.replace("lifecycle", "market"),
        YEAR.replace("Energy report", "=HYPERLINK(1)"),
        YEAR.replace("Energy report", "@SUM(1)"),
        YEAR.replace(",own", ","),
        YEAR.replace("2026", "226"),
        MONTH.replace(",11,", ",13,"),
        MONTH.replace(",11,", ",,"),
        HOUR.replace("2026-11-02", "2026-02-30"),
        HOUR.replace("T12:00Z", "T24:00Z"),
        HOUR.replace("T12:00Z", "T12:30Z"),
        HOUR.replace("T12:00Z", "T12:00"),
        HOUR.replace("2026-11-02", "2099-11-02"),
        "DE,lifecycle\n",
    ]
    address = upload(owner, HEADER + "".join(rows))
    page = text_of(owner.get(address))
    expected = [line for line in range(2, len(rows) + 2) if line != 11]
    assert sorted(bad_lines(page)) == expected
    assert "are those of line 11" in page
    assert 'value="import"' not in page
    assert owner.post(address, {"action": "import"}).status_code == 400
    assert not EmissionFactor.objects.filter(lab=lab.lab).exists()
    assert not AuditEntry.objects.filter(action="own_factors.imported").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "column zone is missing"),
        (HEADER.encode(), "no rows below"),
        (GOOD.encode("utf-16"), "not UTF-8"),
        (b"PK\x03\x04" + bytes(30), "ZIP or spreadsheet"),
        (b"PK\x05\x06" + bytes(18), "ZIP or spreadsheet"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(30), "ZIP or spreadsheet"),
        (b"PK,basis\n", "column zone is missing"),
        (GOOD.replace("Energy", "Énergie").encode("cp1252"), "line 2"),
        (GOOD.replace("Meter", "Me\x00ter").encode(), "Line 4 contains a NUL"),
        (GOOD.replace(",", ";").encode(), "semicolons"),
        (GOOD.replace("licence", "colour").encode(), "column licence is missing"),
        (GOOD.replace("month", "Month").encode(), "is not a column"),
        (GOOD.replace("month", "year").encode(), "twice"),
        ((HEADER + YEAR * 20_001).encode(), "20,000 rows"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(
    owner: Client, lab: SmallLab, content: bytes, words: str
) -> None:
    response = owner.post(PATH, {"file": SimpleUploadedFile("own.csv", content)})
    assert response.status_code == 400
    page = text_of(response)
    assert fields_with_errors(page) == ["file"]
    assert words in page
    assert not OwnFactorFile.objects.exists()


def test_a_large_file_and_no_file_are_refused(owner: Client, lab: SmallLab) -> None:
    large = SimpleUploadedFile("own.csv", b"x" * (MAX_BYTES + 1))
    assert owner.post(PATH, {"file": large}).status_code == 413
    assert owner.post(PATH, {}).status_code == 400
    assert not OwnFactorFile.objects.exists()


def test_an_unusual_value_is_marked(owner: Client, lab: SmallLab) -> None:
    page = text_of(owner.get(upload(owner, HEADER + YEAR.replace("310", "0.31"))))
    assert 'data-unusual="1"' in page
    assert "data-unusual-row" in page
    assert "data-unusual" not in text_of(owner.get(upload(owner, HEADER + YEAR)))


def test_the_other_basis_changes_no_figure(owner: Client, lab: SmallLab) -> None:
    use(lab)
    page = text_of(owner.get(upload(owner, GOOD.replace("lifecycle", "direct"))))
    assert 'data-empty="sites"' in page
    assert "data-other-basis" in page


def test_another_lab_neither_sees_nor_uses_it(
    owner: Client, outsider: Client, lab: SmallLab
) -> None:
    address = imported(owner, GOOD)
    assert outsider.get(address).status_code == 404
    assert outsider.post(address, {"action": "import"}).status_code == 404
    assert "Energy report" not in text_of(outsider.get("/factors/DE/"))
    assert "310000000" not in text_of(outsider.get("/factors/?q=germany"))


def test_only_managers_import(owner: Client, viewer: Client, member: Client, lab: SmallLab) -> None:
    address = upload(owner, GOOD)
    for client in (viewer, member):
        for path in (PATH, address):
            assert client.get(path).status_code == 403
            assert client.post(path, {"action": "import"}).status_code == 403
        assert PATH not in text_of(client.get("/factors/"))
    assert PATH in text_of(owner.get("/factors/"))
    assert not EmissionFactor.objects.filter(lab=lab.lab).exists()


def test_wrong_method_and_sign_in(owner: Client, lab: SmallLab) -> None:
    address = upload(owner, GOOD)
    for path in (PATH, address):
        assert_needs_sign_in(path)
        assert_only(owner, path, "GET", "POST")
    assert owner.get(f"{PATH}00000000-0000-4000-8000-000000000000/").status_code == 404


def test_text_of_a_file_is_escaped(owner: Client, lab: SmallLab) -> None:
    text = f'{HEADER}DE,lifecycle,annual_country,2026,,,310,"{HOSTILE.replace(chr(34), "")}",own\n'
    page = text_of(owner.get(upload(owner, text, name=f"{HOSTILE}.csv")))
    assert "<script>alert" not in page
    assert "<img" not in page


def test_the_number_of_queries_does_not_depend_on_the_rows(owner: Client, lab: SmallLab) -> None:
    one = upload(owner, HEADER + YEAR)
    months = [
        MONTH.replace("2026,11", f"{year},{month}")
        for year in (2024, 2025)
        for month in range(1, 13)
    ]
    many = upload(owner, HEADER + "".join(months) + HOUR)
    text_of(owner.get(one))
    assert queries(owner, one) == queries(owner, many)


def test_an_imported_file_is_listed_and_withdrawn_with_a_reason(
    owner: Client, lab: SmallLab
) -> None:
    use(lab)
    assert "files-title" not in text_of(owner.get(PATH))
    address = imported(owner, GOOD)
    assert f'href="{address}"' in text_of(owner.get(PATH))
    assert "data-withdraw>" not in text_of(owner.get(address))
    page = text_of(owner.get(f"{address}?withdraw"))
    assert "data-withdraw>" in page
    assert f'data-site="{lab.site.pk}"' in page
    answer = owner.post(address, {"action": "withdraw", "reason": " "})
    assert answer.status_code == 400
    assert fields_with_errors(text_of(answer)) == ["reason"]
    assert owner.post(address, {"action": "nope"}).status_code == 400
    answer = owner.post(address, {"action": "withdraw", "reason": "Wrong <meter>"})
    assert answer.status_code == 302
    run_until_idle(worker="test")
    page = text_of(owner.get(address))
    assert "data-withdrawn" in page
    assert "Wrong &lt;meter&gt;" in page
    assert "?withdraw" not in page
    assert "data-withdrawn" in text_of(owner.get(PATH))
    assert not EmissionFactor.objects.filter(lab=lab.lab, superseded_us__isnull=True).exists()
    assert owner.get(f"{address}?withdraw").status_code == 200


def test_a_second_withdrawal_says_who_withdrew_first_and_when(owner: Client, lab: SmallLab) -> None:
    address = imported(owner, GOOD)
    data = {"action": "withdraw", "reason": "Wrong meter"}
    for answer in (owner.post(address, data), owner.post(address, {**data, "reason": "Again"})):
        assert answer.status_code == 302
    page = text_of(owner.get(address))
    assert "withdrawn before" in page
    lead = page.split("data-withdrawn")[1].split("</p>")[0]
    assert "<time" in lead
    assert "by owner" in lead
    assert "Wrong meter" in lead
    assert "Waiting for the worker" in page  # the figures are not calculated again yet
    run_until_idle(worker="test")
    assert "Waiting for the worker" not in text_of(owner.get(address))
    assert AuditEntry.objects.filter(action="own_factors.withdrawn").count() == 1


def test_only_pis_and_admins_of_the_lab_withdraw(
    owner: Client, viewer: Client, member: Client, outsider: Client
) -> None:
    address = imported(owner, GOOD)
    data = {"action": "withdraw", "reason": "x"}
    for client, status in ((viewer, 403), (member, 403), (outsider, 404)):
        assert client.post(address, data).status_code == status
        assert client.get(f"{address}?withdraw").status_code == status
    assert OwnFactorFile.objects.get().withdrawn_us is None
