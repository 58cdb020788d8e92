"""Files of activities: good rows are recorded once, bad rows are listed by line and reason."""

import pytest

from apps.activity.models import Activity, BadRow
from tests.activity.files import MIXED, counts, many_rows, recorded
from tests.builders import SmallLab, small_lab

pytestmark = pytest.mark.django_db


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


def test_good_rows_are_recorded_and_bad_rows_are_listed(lab: SmallLab) -> None:
    file = recorded(lab, MIXED)
    assert counts(file) == ("done", 3, 0, 2)
    assert list(BadRow.objects.values_list("line", "field")) == [(4, "project"), (5, "from")]
    names = Activity.objects.order_by("pk").values_list("name", flat=True)
    assert list(names) == ["nas-1", "bucket", "nas-1"]
    assert not file.content


def test_many(lab: SmallLab) -> None:
    import time

    t = time.time()
    file = recorded(lab, many_rows(2000, 500), "file_server")
    print(time.time() - t)
    assert counts(file) == ("done", 1996, 0, 4)
