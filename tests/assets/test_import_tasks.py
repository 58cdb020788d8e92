"""Registration and undo of a long import as jobs: started once, all or nothing, with their error
and progress on the page.
"""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from apps.assets.import_progress import permille_of
from apps.assets.models import Asset, RegisterImport
from apps.assets.services import Entry, record
from apps.assets.services.csv_import import upload
from apps.assets.spreadsheets.rows import Options
from apps.core.clock import now_us
from apps.core.jobs import release_dead_leases, run_until_idle
from apps.core.models import Job
from tests.assets.books_by_year import books_by_year
from tests.assets.gpus import own_csv
from tests.builders import SmallLab, small_lab
from tests.dashboard.support import text_of

pytestmark = pytest.mark.django_db
UNDO = "apps.assets.services.undo.execution"


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


@pytest.fixture
def owner(lab: SmallLab, client: Client) -> Client:
    client.force_login(lab.owner)
    return client


@pytest.fixture(autouse=True)
def long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Execute imports of more than ten rows as jobs."""
    monkeypatch.setattr("apps.assets.services.csv_import.SYNCHRONOUS_LINES", 10)
    monkeypatch.setattr("apps.assets.services.import_tasks.SYNCHRONOUS_ASSETS", 10)


def work() -> None:
    run_until_idle(worker="host:1")


def read_address(owner: Client) -> str:
    address = str(owner.post("/assets/import/", {"lines": own_csv()})["Location"])
    work()
    return address


def registered_address(owner: Client) -> str:
    address = read_address(owner)
    owner.post(address, {"action": "register"})
    work()
    return address


def state() -> str:
    return str(RegisterImport.objects.values_list("state", flat=True).get())


def tasks() -> list[int]:
    """Return how often the jobs of imports were requested and not done."""
    jobs = Job.objects.filter(kind="assets.import_write")
    return [job.requested - job.done for job in jobs if job.requested > job.done]


def fail(error: BaseException) -> Callable[..., Any]:
    def raised(*_: Any, **__: Any) -> None:
        raise error

    return raised


def test_two_clicks_undo_once_and_the_page_polls_until_the_end(
    lab: SmallLab, owner: Client
) -> None:
    empty = books_by_year(lab)
    address = registered_address(owner)
    full = books_by_year(lab)
    for _ in range(2):
        answer = owner.post(f"{address}undo/", {"action": "undo"})
        assert answer["Location"] == f"{address}undo/"
    assert tasks() == [1]
    assert Asset.objects.count() == 41
    page = text_of(owner.get(f"{address}undo/"))
    assert 'data-state="undoing"' in page
    assert 'hx-trigger="every 2s"' in page
    assert owner.get(address)["Location"] == f"{address}undo/"
    assert f'href="{address}"' in text_of(owner.get("/assets/imports/"))
    assert owner.post(f"{address}redo/", {"action": "redo"}).status_code == 409
    work()
    assert (state(), books_by_year(lab)) == ("done", empty)
    ended = owner.get(f"{address}undo/", headers={"HX-Request": "true"})
    assert ended["HX-Redirect"] == "/assets/imports/"
    owner.post(f"{address}redo/", {"action": "redo"})
    assert 'data-state="redoing"' in text_of(owner.get(f"{address}redo/"))
    work()
    assert (state(), books_by_year(lab)) == ("done", full)


def test_two_clicks_register_once(lab: SmallLab, owner: Client) -> None:
    address = read_address(owner)
    for _ in range(2):
        assert owner.post(address, {"action": "register"})["Location"] == address
    assert tasks() == [1]
    work()
    assert Asset.objects.count() == 41


def test_a_refused_undo_is_shown_and_can_be_started_again(lab: SmallLab, owner: Client) -> None:
    address = registered_address(owner)
    card = Asset.objects.exclude(parent=None).order_by("pk")[0]
    owner.post(f"{address}undo/", {"action": "undo"})
    record(asset=card, entry=Entry("retire", now_us()), by=lab.owner, now=now_us())
    before = books_by_year(lab)
    work()
    assert (state(), books_by_year(lab)) == ("done", before)
    polled = owner.get(f"{address}undo/", headers={"HX-Request": "true"})
    page = text_of(polled)
    assert "data-job-error" in page
    assert "it has later events" in page
    kept = f"{card.parent_id},{card.pk}"
    owner.post(f"{address}undo/", {"action": "undo", "leave_out": kept})
    work()
    assert Asset.objects.count() == 2
    assert "data-job-error" not in text_of(owner.get(f"{address}undo/"))


@pytest.mark.parametrize("step", ["undo", "register"])
def test_a_killed_job_leaves_everything_as_before_and_starts_again(
    lab: SmallLab, owner: Client, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    address = registered_address(owner) if step == "undo" else read_address(owner)
    place = f"{UNDO}.recharge" if step == "undo" else "apps.assets.services.csv_import._changed"
    before = books_by_year(lab)
    owner.post(f"{address}undo/" if step == "undo" else address, {"action": step})
    with monkeypatch.context() as patched:
        patched.setattr(place, fail(SystemExit()))
        with pytest.raises(SystemExit):
            work()
    assert books_by_year(lab) == before
    assert state() == ("undoing" if step == "undo" else "writing")
    work()
    assert books_by_year(lab) == before, "the lease of the dead worker"
    assert release_dead_leases(host="host", is_alive=lambda pid: False) == 1
    work()
    assert state() == "done"
    assert Asset.objects.count() == (0 if step == "undo" else 41)


@pytest.mark.parametrize("step", ["undo", "register"])
def test_an_internal_error_is_shown_with_what_to_do(
    lab: SmallLab, owner: Client, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    address = registered_address(owner) if step == "undo" else read_address(owner)
    form = f"{address}undo/" if step == "undo" else address
    place = f"{UNDO}.recharge" if step == "undo" else "apps.assets.services.csv_import._changed"
    before = books_by_year(lab)
    owner.post(form, {"action": step})
    with monkeypatch.context() as patched:
        patched.setattr(place, fail(ValueError("secret detail")))
        work()
    assert (tasks(), books_by_year(lab)) == ([], before)
    page = text_of(owner.get(form))
    assert "data-job-error" in page
    assert "Try again" in page
    assert "secret detail" not in page
    owner.post(form, {"action": step})
    assert "data-job-error" not in text_of(owner.get(form))
    work()
    assert Asset.objects.count() == (0 if step == "undo" else 41)


def test_progress_is_visible_while_the_transaction_is_open(
    lab: SmallLab, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = registered_address(owner)
    uuid = RegisterImport.objects.get().uuid
    owner.post(f"{address}undo/", {"action": "undo"})
    assert permille_of(uuid) is None
    assert 'max="100"' not in text_of(owner.get(f"{address}undo/"))
    pages: list[str] = []

    def look(**_: Any) -> None:
        pages.append(text_of(owner.get(f"{address}undo/")))

    monkeypatch.setattr(f"{UNDO}.recharge", look)
    work()
    assert 'value="66" max="100"' in pages[0]
    assert permille_of(uuid) is None


def test_thousands_of_assets_are_left_out_in_one_field(lab: SmallLab, owner: Client) -> None:
    address = registered_address(owner)
    ids = ",".join(str(pk) for pk in Asset.objects.values_list("pk", flat=True))
    many = f"{ids},{','.join(str(number) for number in range(10**6, 10**6 + 2_000))}"
    posted = owner.post(f"{address}undo/", {"action": "undo", "leave_out": many})
    assert posted.status_code == 302
    work()
    assert Asset.objects.count() == 41
    assert "There is nothing to undo" in text_of(owner.get(f"{address}undo/"))


def test_an_old_import_is_not_deleted_while_it_is_undone(lab: SmallLab, owner: Client) -> None:
    address = registered_address(owner)
    owner.post(f"{address}undo/", {"action": "undo"})
    options: dict[str, Any] = {"lab": lab.lab, "options": Options(), "by": None}
    month_us = 30 * 24 * 3_600 * 1_000_000
    text = b"name,kind,bought_on\nx,gpu,2024-01-01\n"
    upload(file_name="x.csv", content=text, now=now_us() + month_us, **options)
    work()
    assert not Asset.objects.exists()
