"""The page of idle energy: policies, what they spread, and mistakes."""

import pytest
from django.test import Client

from apps.energy.models import IdlePolicy
from tests.builders import SmallLab
from tests.dashboard.support import (
    PERIOD,
    assert_each_figure_explains_itself,
    assert_needs_sign_in,
    assert_only,
    figures_on,
    text_of,
    use,
)

FORM = {"policy": "by_energy", "from_day": "2026-11-01"}


def test_recording_spreads_and_withdrawing_shows_idle_again(lab: SmallLab, owner: Client) -> None:
    use(lab, runs=2)
    assert "shown apart" in text_of(owner.get("/idle/"))
    before = figures_on(text_of(owner.get(f"/projects/?{PERIOD}")))
    assert owner.post("/idle/", FORM).status_code == 302
    page = text_of(owner.get("/idle/"))
    assert "spread by energy used" in page
    assert "Demo 100 %" in page
    overview = text_of(owner.get(f"/?{PERIOD}"))
    assert "Idle, nobody using it" not in overview
    project = text_of(owner.get(f"/projects/demo/?{PERIOD}"))
    assert "Its share of idle energy" in project
    assert assert_each_figure_explains_itself(owner, project) > 8
    row = IdlePolicy.objects.get()
    assert owner.post("/idle/", {"withdraw": str(row.from_hour)}).status_code == 302
    assert figures_on(text_of(owner.get(f"/projects/?{PERIOD}"))) == before


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"policy": "gone"}, "is not a policy"), ({"from_day": "soon"}, "is not a day"), ({"withdraw": "x"}, "no such policy"),
     ({"withdraw": "9" * 18}, "no such policy"), ({"from_day": "9999-12-31"}, "out of range")],
)  # fmt: skip
def test_mistakes_are_told(lab: SmallLab, owner: Client, wrong: dict[str, str], words: str) -> None:
    answer = owner.post("/idle/", {**FORM, **wrong})
    assert answer.status_code == 400
    assert words in text_of(answer)
    assert not IdlePolicy.objects.exists()


def test_roles_labs_methods(lab: SmallLab, owner: Client, viewer: Client, outsider: Client) -> None:
    owner.post("/idle/", FORM)
    row = IdlePolicy.objects.get()
    assert "spread by energy used" in text_of(viewer.get("/idle/"))
    assert viewer.post("/idle/", FORM).status_code == 403
    assert "shown apart" in text_of(outsider.get("/idle/"))
    outsider.post("/idle/", {"withdraw": str(row.from_hour)})
    assert IdlePolicy.objects.get() == row
    assert_needs_sign_in("/idle/")
    assert_only(owner, "/idle/", "GET", "POST")
