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

FORM = {"action": "set", "policy": "by_energy", "from_day": "2026-11-01"}


def test_recording_spreads_and_withdrawing_shows_idle_again(lab: SmallLab, owner: Client) -> None:
    use(lab, runs=2)
    assert 'data-policy="' not in text_of(owner.get("/settings/idle/"))
    before = figures_on(text_of(owner.get(f"/projects/?{PERIOD}")))
    assert owner.post("/settings/idle/", FORM).status_code == 302
    page = text_of(owner.get("/settings/idle/"))
    assert 'data-policy="by_energy"' in page
    assert "Demo 100 %" in page
    overview = text_of(owner.get(f"/?{PERIOD}"))
    assert "Idle, nobody using it" not in overview
    project = text_of(owner.get(f"/projects/demo/?{PERIOD}"))
    assert "Share of idle energy" in project
    assert assert_each_figure_explains_itself(owner, project) > 8
    row = IdlePolicy.objects.get()
    assert (
        owner.post(
            "/settings/idle/", {"action": "withdraw", "from_hour": str(row.from_hour)}
        ).status_code
        == 302
    )
    assert figures_on(text_of(owner.get(f"/projects/?{PERIOD}"))) == before


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"policy": "gone"}, 'data-field-error="policy"'),
        ({"from_day": "soon"}, 'data-field-error="from_day"'),
        ({"action": "withdraw", "from_hour": "x"}, "No such policy"),
        ({"action": "withdraw", "from_hour": "9" * 18}, "No such policy"),
        ({"from_day": "9999-12-31"}, 'data-field-error="from_day"'),
    ],
)
def test_mistakes_are_told(lab: SmallLab, owner: Client, wrong: dict[str, str], words: str) -> None:
    answer = owner.post("/settings/idle/", {**FORM, **wrong})
    assert answer.status_code == 400
    assert words in text_of(answer)
    assert not IdlePolicy.objects.exists()


def test_roles_labs_methods(lab: SmallLab, owner: Client, viewer: Client, outsider: Client) -> None:
    owner.post("/settings/idle/", FORM)
    row = IdlePolicy.objects.get()
    assert 'data-policy="by_energy"' in text_of(viewer.get("/settings/idle/"))
    assert viewer.post("/settings/idle/", FORM).status_code == 403
    assert 'data-policy="' not in text_of(outsider.get("/settings/idle/"))
    outsider.post("/settings/idle/", {"action": "withdraw", "from_hour": str(row.from_hour)})
    assert IdlePolicy.objects.get() == row
    assert_needs_sign_in("/settings/idle/")
    assert_only(owner, "/settings/idle/", "GET", "POST")
