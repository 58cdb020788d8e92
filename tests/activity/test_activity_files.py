"""Files of activities: good rows are recorded once, bad rows are listed by line and reason."""

import io
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.models import AuditEntry
from apps.activity.models import Activity, ActivityFile, BadRow
from apps.activity.services import activity_files, withdraw_activity
from apps.activity.services.activity_files import confirm, record_batches
from apps.activity.spreadsheets.rows import Layout, file_rows, number_text
from apps.core.clock import now_us
from apps.core.errors import Conflict, InvalidInput, TooLarge
from apps.core.jobs import release_dead_leases, run_until_idle
from apps.core.units import MJ_PER_KWH
from apps.energy.models import LedgerEntry
from apps.ingest.models import EnergyWindow
from apps.runs.models import Run
from tests.activity.files import HEADINGS, MIXED, checked, counts, many_rows, recorded, uploaded
from tests.builders import SmallLab, small_lab

pytestmark = pytest.mark.django_db


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


def ledger() -> set[tuple[int, int, int]]:
    rows = LedgerEntry.objects.values_list("device", "hour", "energy_mj")
    return {(device, hour, energy_mj) for device, hour, energy_mj in rows}


def test_good_rows_are_recorded_and_bad_rows_are_listed(lab: SmallLab) -> None:
    preview = checked(lab, MIXED)
    assert counts(preview) == ("checked", 3, 0, 2)
    assert not Activity.objects.exists()
    listed = list(BadRow.objects.values_list("line", "field", "message"))
    confirm(file=preview, by=lab.owner, now=now_us())
    confirm(file=preview, by=lab.owner, now=now_us())  # clicked twice
    run_until_idle(worker="test")
    preview.refresh_from_db()
    assert counts(preview) == ("done", 3, 0, 2)
    assert list(BadRow.objects.values_list("line", "field", "message")) == listed
    assert [(line, field) for line, field, _ in listed] == [(4, "project"), (5, "from")]
    rows = Activity.objects.order_by("pk").values_list("name", "external_id", "kind")
    assert [(name, kind) for name, _, kind in rows] == [
        ("nas-1", "file_server"),
        ("bucket", "cloud_storage"),
        ("nas-1", "file_server"),
    ]
    assert rows[1][1] == "bill-7"
    assert rows[2][1] == f"{rows[0][1]}#2"
    assert preview.energy_mj == sum(Activity.objects.values_list("energy_mj", flat=True))
    assert sum(entry[2] for entry in ledger()) == preview.energy_mj
    assert not preview.content
    entry = AuditEntry.objects.get(action="activity.imported")
    assert entry.details["new"] == 3


def test_runs_of_a_file_are_charged_as_declared(lab: SmallLab) -> None:
    text = f"{HEADINGS}\nfile_server,,a,demo,2026-10-01,2026-10-02,DE,1,,,\n"
    recorded(lab, text + "file_server,,b,,2026-10-01,2026-10-02,DE,1,,,\n")
    runs = {run.name: run for run in Run.objects.select_related("charged_project")}
    assert runs["a"].charged_project is not None
    assert (runs["a"].charged_project.slug, runs["a"].attributed_by) == ("demo", "explicit")
    assert runs["b"].charged_project is None
    assert {run.state for run in runs.values()} == {"finished"}


@pytest.mark.parametrize("text", [MIXED, many_rows(120, 40)])
def test_the_same_file_twice_changes_nothing(lab: SmallLab, text: str) -> None:
    kind = "" if text == MIXED else "file_server"
    first = recorded(lab, text, kind)
    before = (ledger(), EnergyWindow.objects.count(), Run.objects.count())
    again = recorded(lab, text, kind)
    assert (again.state, again.new, again.known) == ("checked", 0, first.new)
    assert again.wrong == first.wrong
    assert (ledger(), EnergyWindow.objects.count(), Run.objects.count()) == before
    with pytest.raises(Conflict):
        confirm(file=again, by=lab.owner, now=now_us())


def test_a_corrected_row_is_the_only_new_one(lab: SmallLab) -> None:
    recorded(lab, MIXED)
    again = recorded(lab, MIXED.replace("nope", "demo"))
    assert counts(again) == ("done", 1, 3, 1)


def test_other_content_with_the_same_id_is_a_bad_row(lab: SmallLab) -> None:
    recorded(lab, MIXED)
    again = checked(lab, MIXED.replace("2.5", "2.6"))
    assert counts(again) == ("checked", 0, 2, 3)
    assert again.bad_rows.get(line=3).field == "external_id"
    double = f"{HEADINGS}\n" + "file_server,x,a,demo,2026-10-01,2026-10-02,DE,1,,,\n" * 2
    assert checked(lab, double).bad_rows.get().line == 3


def test_a_withdrawn_row_does_not_come_back(lab: SmallLab) -> None:
    recorded(lab, MIXED)
    for activity in Activity.objects.all():
        withdraw_activity(activity=activity, reason="wrong", by=lab.owner, now=now_us())
    again = checked(lab, MIXED)
    assert (again.new, again.known) == (0, 2)
    assert "withdrawn" in again.bad_rows.get(line=3).message


def test_a_killed_job_continues_and_counts_nothing_twice(
    lab: SmallLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity_files, "RECORD_BATCH", 50)
    file = checked(lab, many_rows(220, 30), "file_server")
    confirm(file=file, by=lab.owner, now=now_us())
    real = activity_files.store_activities
    calls = []

    def killed(**options: object) -> object:
        calls.append(1)
        result = real(**options)  # type: ignore[arg-type]
        if len(calls) == 3:
            raise SystemExit
        return result

    with monkeypatch.context() as patched:
        patched.setattr(activity_files, "store_activities", killed)
        with pytest.raises(SystemExit):
            run_until_idle(worker="host:1")
    file.refresh_from_db()
    assert (file.state, file.rows_done) == ("recording", 100)
    assert Activity.objects.count() == file.new == 96
    assert release_dead_leases(host="host", is_alive=lambda pid: False) == 1
    run_until_idle(worker="test")
    file.refresh_from_db()
    assert counts(file) == ("done", 212, 0, 8)
    assert Activity.objects.count() == 212
    assert file.bad_rows.count() == 8
    assert sum(entry[2] for entry in ledger()) == file.energy_mj


def test_a_long_job_lets_others_have_their_turn(
    lab: SmallLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity_files, "RECORD_BATCH", 10)
    monkeypatch.setattr("apps.activity.jobs.TURN_US", 0)
    file = recorded(lab, many_rows(45), "file_server")
    assert counts(file) == ("done", 45, 0, 0)
    assert not list(record_batches(uuid=file.uuid, now=now_us()))


def test_two_thousand_rows(lab: SmallLab) -> None:
    file = recorded(lab, many_rows(2_000, 500), "file_server")
    assert counts(file) == ("done", 1_996, 0, 4)
    assert list(file.bad_rows.order_by("line").values_list("line", flat=True)) == [
        2, 502, 1_002, 1_502,
    ]  # fmt: skip
    assert sum(entry[2] for entry in ledger()) == file.energy_mj


def workbook(rows: list[list[object]]) -> bytes:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def test_a_workbook_with_months_and_real_dates(lab: SmallLab) -> None:
    rows: list[list[object]] = [
        ["Backups of the institute"],
        ["Kind", "Name", "Month", "Region", "Provider", "TB-months", "Medium", "PUE"],
        ["Cloud backup", "a", date(2026, 10, 1), "eu-central-1", "aws", 1.125, "hdd", 1.2],
        ["Cloud backup", "b", "2026-09", "DE", "other", 2, "object", None],
    ]
    file = recorded(lab, workbook(rows))
    assert counts(file) == ("done", 2, 0, 0)
    first, second = Activity.objects.order_by("pk")
    assert (first.inputs["tb_months"], first.pue_ppm) == ("1.125", 1_200_000)
    starts = [datetime.fromtimestamp(row.start_us / 1e6, UTC) for row in (first, second)]
    assert starts == [
        datetime(2026, 9, 30, 22, tzinfo=UTC),
        datetime(2026, 8, 31, 22, tzinfo=UTC),
    ]


def test_a_german_list_is_read_after_its_questions(lab: SmallLab) -> None:
    text = "Bezeichnung;Von;Bis;Netzzone;kWh\nServer;03/04/2026;05/04/2026;DE;1.500\n"
    with pytest.raises(InvalidInput) as caught:
        checked(lab, text.encode("cp1252"), "file_server")
    assert caught.value.field == "date_order"
    file = checked(lab, text.encode("cp1252"), "file_server", date_order="dmy", decimal=",")
    assert (file.new, file.energy_mj) == (1, 1_500 * MJ_PER_KWH)


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ("nope,,a,demo,2026-10-01,2026-10-02,DE,1,,,", "kind"),
        ("file_server,,a,demo,2026-10-01,2026-10-02,Atlantis,1,,,", "zone"),
        ("file_server,,a,demo,2026-10-02,2026-10-01,DE,1,,,", "to"),
        ("file_server,,a,demo,2026-10-01,2199-10-01,DE,1,,,", "to"),
        ("file_server,,a,demo,2026-10-01,,DE,1,,,", "to"),
        ("file_server,,a,demo,,2026-10-01,DE,1,,,", "from"),
        ("file_server,,a,demo,2026-10-01T,2026-10-02,DE,1,,,", "from"),
        ("file_server,,a,demo,2026-10-01,2026-10-02,DE,=1+1,,,", "kwh"),
        ("file_server,,a,demo,2026-10-01,2026-10-02,DE,-1,,,", "kwh"),
        ("file_server,,a,demo,2026-10-01,2026-10-02,DE,1e99,,,", "kwh"),
        ("file_server,,a,demo,2026-10-01,2026-10-02,DE,1e3,,,", "kwh"),
        ("file_server,,a,demo,2026-10-01,2026-10-02,DE,1_000,,,", "kwh"),
        ("file_server,,a,demo,2026-10-01,2026-10-02,DE,١٢,,,", "kwh"),
        ("file_server,,a,demo,2026-10-01,2026-10-02,DE,-0,,,", "kwh"),
        ("file_server,,a,demo,2026-10-01,2026-10-02,DE,1 23,,,", "kwh"),
        ("file_server,,a,demo,2026-10-01,2026-10-02,DE,0,,,", "kwh"),
        ("cloud_storage,,a,demo,2026-10-01,2026-10-02,DE,,aws,0,hdd", "tb_months"),
        ("file_server,,a,demo,2026-03-29T02:30,2026-04-01,DE,1,,,", "from"),
        ("file_server,,a,demo,2026-10-25T02:30,2026-10-26,DE,1,,,", "from"),
        ("file_server,,a,demo,٢٠٢٦-١٠-٠١,2026-10-26,DE,1,,,", "from"),
        ("file_server,,a,demo,2026-10-01,2026-10-02,DE,99999999999,,,", "inputs"),
        ("file_server,,a,demo,2026-10-01,2026-10-02,DE,1,aws,,", "provider"),
        ("cloud_storage,,a,demo,2026-10-01,2026-10-02,DE,,aws,1,paper", "medium"),
        ("file_server,,a,demo,2026-10-01,2026-10-02,DE,1,,,,more", ""),
        (f"file_server,,{'a' * 201},demo,2026-10-01,2026-10-02,DE,1,,,", "name"),
        (f"file_server,{'i' * 191},a,demo,2026-10-01,2026-10-02,DE,1,,,", "id"),
    ],
)
def test_bad_rows_name_their_field(lab: SmallLab, row: str, field: str) -> None:
    good = "file_server,,a,demo,2026-10-01,2026-10-02,DE,1,,,"
    file = checked(lab, f"{HEADINGS}\n{good}\n{row}\n")
    assert counts(file) == ("checked", 1, 0, 1)
    bad = file.bad_rows.get()
    assert (bad.line, bad.field) == (3, field)
    assert bad.message


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", InvalidInput),
        (b"name,kwh\n", InvalidInput),
        (b"name,kWh,from,KWH\na,1,2026-10-01,2\n", InvalidInput),
        (b"name\x00,kwh\na,1\n", InvalidInput),
        (b"\x89PNG\r\n\x1a\n\x00\xff", InvalidInput),
        (b"PK\x03\x04broken", InvalidInput),
        (b'name,kwh\n"open,1\n', InvalidInput),
        (b"x" * ((8 << 20) + 1), TooLarge),
        (b"name,kwh\n" + b"a,1\n" * 50_001, TooLarge),
    ],
)
def test_a_file_that_cannot_be_read_is_not_stored(
    lab: SmallLab, content: bytes, error: type[Exception]
) -> None:
    with pytest.raises(error):
        uploaded(lab, content)
    assert not ActivityFile.objects.exists()


def test_two_columns_with_one_heading_are_refused_by_position(lab: SmallLab) -> None:
    with pytest.raises(InvalidInput) as caught:
        uploaded(lab, "name,kWh,,from,,kwh\na,1,,2026-10-01,,2\n")
    assert caught.value.field == "file"
    assert "'kwh' is that of columns 2 and 6" in caught.value.message
    assert uploaded(lab, "name,kwh,,\na,1,,\n").rows == 1  # empty headings are of no field


@pytest.mark.parametrize(
    ("entered", "message", "hint"),
    [
        ("2026-03-29T02:30", "does not exist in Europe/Berlin", "03:30"),
        (
            "2026-10-25 02:30",
            "occurs twice in Europe/Berlin",
            "02:30+02:00 or 2026-10-25T02:30+01:00",
        ),
    ],
)
def test_times_that_the_clock_skips_or_repeats(
    lab: SmallLab, entered: str, message: str, hint: str
) -> None:
    head = "name,from,to,zone,kwh\n"
    bad = checked(lab, f"{head}nas,{entered},2026-11-01,DE,1\n", "file_server").bad_rows.get()
    assert (bad.line, bad.field) == (2, "from")
    assert message in bad.message
    assert hint in bad.hint


def test_hours_of_a_row_are_at_most_those_of_its_period(lab: SmallLab) -> None:
    head = "name,from,last day,zone,disks,watts_per_disk,hours\n"
    rows = "a,2026-10-25,2026-10-25,DE,8,5,25\nb,2026-10-24,2026-10-24,DE,8,5,25\n"
    file = recorded(lab, head + rows, "file_server")
    assert counts(file) == ("done", 1, 0, 1)  # the clock is set back on the 25th
    bad = file.bad_rows.get()
    assert (bad.line, bad.field) == (3, "hours")
    assert "25 hours are more than the 24 hours" in bad.message


def test_times_with_their_offset_are_exact(lab: SmallLab) -> None:
    head = "name,from,to,zone,kwh\n"
    rows = (
        "a,2026-10-25T02:30+02:00,2026-10-25T02:30+01:00,DE,1\n"
        "b,2026-03-29T01:59,2026-03-29T03:00,DE,1\n"
        "c,2026-10-25T03:00,2026-10-25T04:00,DE,1\n"
    )
    assert counts(recorded(lab, head + rows, "file_server")) == ("done", 3, 0, 0)
    lengths = [row.end_us - row.start_us for row in Activity.objects.order_by("pk")]
    assert lengths == [3_600_000_000, 60_000_000, 3_600_000_000]


@given(st.integers(0, 365 * 96 - 1))
def test_only_local_times_of_the_two_changes_are_refused(quarter: int) -> None:
    """Oracle: UTC minutes counted by the wall time that they show."""
    entered = f"{datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=15 * quarter):%Y-%m-%dT%H:%M}"
    text = f"name,from,to,zone,kwh\nnas,{entered},2027-01-02,DE,1"
    [row] = file_rows(text, LAYOUT)
    if entered[11:] == "00:00":
        assert row.draft  # a day
        return
    shown = WALL_TIMES[entered]
    assert (row.draft is not None) == (len(shown) == 1)
    if row.draft:
        assert row.draft.start_us == shown[0] * 1_000_000


def test_fifty_thousand_rows_are_accepted(lab: SmallLab) -> None:
    assert uploaded(lab, b"name,kwh\n" + b"a,1\n" * 50_000).rows == 50_000


def test_old_previews_are_deleted_and_recorded_files_stay(lab: SmallLab) -> None:
    recorded(lab, MIXED)
    uploaded(lab, MIXED)
    old = now_us() - activity_files.EXPIRY_US - 1
    ActivityFile.objects.update(created_us=old)
    uploaded(lab, MIXED)
    assert ActivityFile.objects.filter(created_us=old).count() == 1


WALL_TIMES: dict[str, list[int]] = defaultdict(list)
for _s in range(1_767_139_200, 1_798_848_000, 900):
    WALL_TIMES[f"{datetime.fromtimestamp(_s, ZoneInfo('Europe/Berlin')):%Y-%m-%dT%H:%M}"].append(_s)
LAYOUT = Layout(
    {key: key for key in ("name", "from", "to", "zone", "kwh")},
    "file_server", ",", "", "", "Europe/Berlin",
)  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 4)), max_size=12))
def test_equal_rows_have_their_own_identity_in_any_order(pairs: list[tuple[str, int]]) -> None:
    def ids(rows: list[tuple[str, int]]) -> list[str]:
        lines = [f"{name},2026-10-01,2026-10-02,DE,{kwh}" for name, kwh in rows]
        text = "\n".join(["name,from,to,zone,kwh", *lines])
        return [row.draft.external_id for row in file_rows(text, LAYOUT) if row.draft]

    forward = ids(pairs)
    assert len(set(forward)) == len(pairs)
    assert sorted(ids(pairs[::-1])) == sorted(forward)


@pytest.mark.parametrize("text", ["1 234 567", "1'234'567", "1 234 567.0", "1.234.567"])
def test_thousands_of_a_file(text: str) -> None:
    assert float(number_text(text, "kwh", "")) == 1_234_567


@pytest.mark.parametrize(
    "text", ["1_000", "١٢", "1e3", "+5", "-5", "1 23", "12 3456", "1  000", "5.", ",", "1.2,3.4"]
)
def test_other_notations_of_a_file_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"Energy \(kWh\)"):
        number_text(text, "kwh", ".")


@given(st.decimals("0", "999999999", places=3), st.sampled_from(",."))
def test_numbers_with_separators(value: object, sign: str) -> None:
    other = "," if sign == "." else "."
    text = f"{value:,}".replace(",", " ").replace(".", sign).replace(" ", other)
    assert float(number_text(text, "kwh", sign)) == float(str(value))
