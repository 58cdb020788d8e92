"""/trackers/codecarbon/: a token for an unmodified client, with the lines to copy."""

import re

import pytest
from django.test import Client

from apps.accounts.models import AuditEntry, Token
from apps.fleet.models import Node
from apps.fleet.selectors import measured_nodes
from apps.trackers.codecarbon.models import CodeCarbonSource
from tests.builders import SmallLab
from tests.dashboard.support import assert_needs_sign_in, assert_only, queries, text_of
from tests.trackers.support import HARDWARE, Tracker, tracker

PAGE = "/trackers/codecarbon/"


def _form(lab: SmallLab, **more: str) -> dict[str, str]:
    return {
        "name": "notebooks",
        "project": "demo",
        "site": str(lab.site.pk),
        "client_pue": "1,2",
        **more,
    }


def _token(page: str) -> str:
    found = re.search(r"lc_cc_[0-9A-Za-z]{8}_[0-9A-Za-z]{49}", page)
    assert found is not None, page
    return found[0]


def test_it_is_shown_once_with_the_lines_to_copy_and_works(lab: SmallLab, owner: Client) -> None:
    page = text_of(owner.post(PAGE, _form(lab)))
    token = _token(page)
    for line in (
        f"api_endpoint = http://127.0.0.1:8000/codecarbon/{token}",
        f"export CODECARBON_API_ENDPOINT=http://127.0.0.1:8000/codecarbon/{token}",
        "save_to_api=True",
        f"/codecarbon/{token}/emissions-data",
    ):
        assert line in page
    for address in (PAGE, "/tokens/"):
        again = text_of(owner.get(address))
        assert token not in again
        assert "notebooks" in again
    source = CodeCarbonSource.objects.get()
    assert (source.client_pue_ppm, source.bound, source.project.slug) == (1_200_000, False, "demo")
    assert Tracker(source, token).post("/runs", HARDWARE).status_code == 201
    row = AuditEntry.objects.get(action="token.made")
    assert token not in str(row.details)
    assert token not in str(list(Token.objects.values()))


def test_of_a_machine(lab: SmallLab, owner: Client) -> None:
    _token(text_of(owner.post(PAGE, _form(lab, node=str(lab.node.uuid)))))
    source = CodeCarbonSource.objects.get()
    assert (source.bound, source.node) == (True, lab.node)
    assert "ws-1" in text_of(owner.get(PAGE))
    assert "node-unknown" not in text_of(owner.get(PAGE))


def test_without_a_machine_it_is_a_possible_double_count_and_no_machine_to_watch(
    lab: SmallLab, owner: Client
) -> None:
    tracker(lab)
    assert 'data-warning="node-unknown"' in text_of(owner.get(PAGE))
    assert Node.objects.count() == 2
    assert list(measured_nodes(lab.lab)) == [lab.node]
    assert "reported by CodeCarbon" in text_of(owner.get("/nodes/"))


def test_it_is_ended_on_tokens(lab: SmallLab, owner: Client) -> None:
    cc = tracker(lab)
    assert (
        owner.post(f"/tokens/{Token.objects.get(kind='cc').public_id}/revoke/").status_code == 302
    )
    assert cc.post("/runs", HARDWARE).status_code == 401
    assert 'data-state="failed"' in text_of(owner.get(PAGE))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"project": "nope"}, "project"),
        ({"project": "a\x00b"}, "project"),
        ({"node": "nope"}, "node"),
        ({"node": "7f1d3b52-2222-4333-8444-555566667777"}, "node"),
        ({"site": ""}, "site"),
        ({"site": "99999"}, "site"),
        ({"client_pue": "0.9"}, "client_pue"),
        ({"client_pue": "NaN"}, "client_pue"),
        ({"client_pue": "much"}, "client_pue"),
        ({"days": "7"}, "days"),
    ],
)
def test_a_wrong_value_is_shown_at_its_field_and_creates_nothing(
    lab: SmallLab, owner: Client, change: dict[str, str], field: str
) -> None:
    response = owner.post(PAGE, _form(lab, **change))
    assert response.status_code == 400
    assert re.findall(r'data-field-error="(\w+)"', text_of(response)) == [field]
    assert CodeCarbonSource.objects.count() == 0


def test_all_errors_are_shown_at_once_and_values_stay(lab: SmallLab, owner: Client) -> None:
    page = text_of(owner.post(PAGE, _form(lab, name="", project="nope", client_pue="much")))
    assert re.findall(r'data-field-error="(\w+)"', page) == ["name", "project", "client_pue"]
    assert 'value="much"' in page


def test_a_viewer_looks_and_makes_none(lab: SmallLab, viewer: Client) -> None:
    assert "data-read-only" in text_of(viewer.get(PAGE))
    assert viewer.post(PAGE, _form(lab)).status_code == 403
    assert CodeCarbonSource.objects.count() == 0


def test_another_labs_things_are_not_chosen(lab: SmallLab, outsider: Client) -> None:
    tracker(lab, name="our secret sweep")
    assert "our secret sweep" not in text_of(outsider.get(PAGE))
    for choice in ({"node": str(lab.node.uuid)}, {"node": "", "site": str(lab.site.pk)}):
        assert outsider.post(PAGE, _form(lab, **choice)).status_code == 400


def test_it_needs_a_session_and_answers_get_and_post(owner: Client) -> None:
    assert_needs_sign_in(PAGE)
    assert_only(owner, PAGE, "GET", "POST")


def test_the_queries_do_not_grow_with_tokens(lab: SmallLab, owner: Client) -> None:
    tracker(lab)
    few = queries(owner, PAGE)
    for i in range(5):
        tracker(lab, name=f"t{i}")
    assert queries(owner, PAGE) == few
