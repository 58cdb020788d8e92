"""Withdrawal of own factors: what was replaced applies again, to the integer."""

from datetime import UTC, date, datetime

import pytest

from apps.accounts import audit
from apps.accounts.models import AuditEntry
from apps.carbon.hourly_factors import record_hours
from apps.carbon.models import EmissionFactor, HourFactor
from apps.carbon.own_factors.models import OwnFactorFile
from apps.carbon.own_factors.withdrawal import withdraw_factors, withdrawal_effect
from apps.carbon.rollups import writer
from apps.core.errors import Conflict, InvalidInput
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.reports.selectors import frozen_rows
from apps.reports.services import close_period
from tests.builders import SmallLab, small_lab
from tests.carbon.test_own_factors import annual, grams, hours, load, small, total, upload
from tests.carbon.test_rolled_days_history import H0, NOW

__all__ = ["small"]  # a fixture
pytestmark = pytest.mark.django_db


def withdraw(lab: SmallLab, file: OwnFactorFile, reason: str = "Wrong meter") -> bool:
    is_done = withdraw_factors(file=file, reason=reason, by=lab.owner, now=NOW)
    run_until_idle(worker="test")
    return is_done


@pytest.mark.parametrize("rolled", [False, True])
def test_totals_of_before_come_back(small: SmallLab, rolled: bool) -> None:
    before, total_before = grams(small), total(small.lab)
    file = load(small, annual(300), hours({0: 100, 59: 900}))
    if rolled:
        assert writer.roll_up(lab=small.lab, now=NOW)
    assert total(small.lab) != total_before
    effect = withdrawal_effect(file, NOW)
    assert total(small.lab) != total_before  # the preview writes nothing
    assert [each.site_id for each in effect.sites] == [small.site.pk]
    assert withdraw(small, file)
    assert total(small.lab) == total_before
    assert writer.roll_up(lab=small.lab, now=NOW)
    assert total(small.lab) == total_before
    assert grams(small) == before


def test_a_second_withdrawal_changes_nothing(small: SmallLab) -> None:
    file = load(small, annual(300), hours({3: 100}))
    assert withdraw(small, file)
    rows = [list(model.objects.order_by("pk").values()) for model in (EmissionFactor, HourFactor)]
    file.refresh_from_db()
    assert not withdraw(small, file, "Again")
    assert [
        list(model.objects.order_by("pk").values()) for model in (EmissionFactor, HourFactor)
    ] == rows
    file.refresh_from_db()
    assert file.withdrawal_reason == "Wrong meter"
    [entry] = AuditEntry.objects.filter(lab=small.lab, action="own_factors.withdrawn")
    assert entry.details["factors"] == 2
    assert audit.verify(small.lab) is None


@pytest.mark.parametrize("order", ["newest first", "oldest first"])
def test_files_on_top_of_each_other(small: SmallLab, order: str) -> None:
    before = grams(small)
    first = load(small, annual(300), hours({0: 100, 1: 110}))
    after_first = grams(small)
    second = load(small, annual(400), hours({1: 210, 2: 220}))
    after_second = grams(small)
    assert after_second[:4] == [100, 210, 220, 400]
    if order == "newest first":
        assert withdraw(small, second)
        assert grams(small) == after_first
        assert withdraw(small, first)
    else:
        assert withdraw(small, first)
        assert grams(small) == [400, *after_second[1:]]
        assert withdraw(small, second)
    assert grams(small) == before


def test_hours_of_a_provider_come_back(small: SmallLab) -> None:
    record_hours(
        lab=small.lab, zone="DE", basis="lifecycle", is_actual=True, source="Grid API",
        licence="CC0", hours={H0 + 1: 50_000_000, H0 + 2: 60_000_000}, now=NOW,
    )  # fmt: skip
    run_until_idle(worker="test")
    before = grams(small)
    file = load(small, hours({1: 100, 5: 500}))
    assert withdraw(small, file)
    assert grams(small) == before
    assert before[1] == 50


def test_what_was_replaced_since_stays(small: SmallLab) -> None:
    file = load(small, hours({1: 100}, kind="estimated"))
    record_hours(
        lab=small.lab, zone="DE", basis="lifecycle", is_actual=True, source="Grid API",
        licence="CC0", hours={H0 + 1: 70_000_000}, now=NOW,
    )  # fmt: skip
    run_until_idle(worker="test")
    after = grams(small)
    assert withdraw(small, file)
    assert grams(small) == after
    assert after[1] == 70


def test_a_withdrawn_file_can_be_imported_again(small: SmallLab) -> None:
    first = load(small, annual(300), hours({1: 100}))
    after = grams(small)
    withdraw(small, first)
    load(small, annual(300), hours({1: 100}))
    assert grams(small) == after


def test_a_closed_period_stays(small: SmallLab) -> None:
    file = load(small, annual(300))
    days = [datetime.fromtimestamp((H0 + hour) * 3600, tz=UTC).date() for hour in (0, 24)]
    now = NOW + 40 * 24 * US_PER_HOUR
    statement = close_period(
        lab=small.lab, first_day=days[0], last_day=max(days[1], date(1970, 1, 1)), by=None, now=now
    ).statement
    content = statement.content
    withdraw(small, file)
    statement.refresh_from_db()
    assert statement.content == content
    assert frozen_rows(statement)


def test_what_cannot_be_withdrawn(small: SmallLab) -> None:
    preview = upload(small, annual(300))
    with pytest.raises(Conflict):
        withdraw(small, preview)
    file = load(small, annual(300))
    for reason in ("", "  ", "x" * 401):
        with pytest.raises(InvalidInput) as error:
            withdraw(small, file, reason)
        assert error.value.field == "reason"
    file.refresh_from_db()
    assert file.withdrawn_us is None


def test_another_lab_keeps_its_own(small: SmallLab) -> None:
    other = small_lab(name="Another lab")
    load(other, annual(1))
    file = load(small, annual(300))
    rows = list(EmissionFactor.objects.filter(lab=other.lab).values())
    withdraw(small, file)
    assert list(EmissionFactor.objects.filter(lab=other.lab).values()) == rows
