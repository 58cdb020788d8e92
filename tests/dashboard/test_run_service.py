"""/runs/<uuid>/ of a service: energy and emissions per served requests and tokens."""

import re
from uuid import UUID

import pytest
from django.test import Client

from apps.runs.choices import Intent
from apps.runs.metric_parsing import Point
from apps.runs.models import Run
from apps.runs.services.metrics import add_points
from tests.builders import MINUTE, T0, SmallLab
from tests.dashboard.support import figures_on, queries, text_of, use


@pytest.fixture
def service(lab: SmallLab) -> UUID:
    [uuid] = use(lab)
    Run.objects.filter(uuid=uuid).update(intent=Intent.SERVICE)
    return uuid


def report(lab: SmallLab, uuid: UUID, **totals: list[float]) -> None:
    points = {
        name: [Point(step, T0 + step * MINUTE, value) for step, value in enumerate(values)]
        for name, values in totals.items()
    }
    add_points(lab=lab.lab, uuid=uuid, points=points, bound_node=None, now=None)


def rows(client: Client, uuid: UUID) -> dict[str, str]:
    page = text_of(client.get(f"/runs/{uuid}/"))
    return dict(re.findall(r'<tr data-served="(\w+)">(.*?)</tr>', page))


def exact(row: str, cell: str) -> int:
    """Return the exact integer in the tooltip of a cell."""
    match = re.search(rf'data-{cell}>.*?title="([\d\s]+) (?:mJ|µg)', row)
    assert match, row
    return int(re.sub(r"\s", "", match[1]))


def test_energy_and_emissions_per_requests_and_tokens(
    lab: SmallLab, service: UUID, viewer: Client
) -> None:
    report(lab, service, requests=[0, 10, 30], tokens=[100, 7_000])
    page = text_of(viewer.get(f"/runs/{service}/"))
    figures = {
        re.search(r"metric=(\w+)", query)[1]: value  # type: ignore[index]
        for query, value in reversed(figures_on(page))
        if str(service) in query and "consumer" not in query
    }
    energy_mj, emission = figures["energy_mj"], figures["emission_ug"]
    assert energy_mj > 0
    shown = rows(viewer, service)
    assert exact(shown["requests"], "energy") == (2 * energy_mj * 1_000 + 30) // 60
    assert exact(shown["tokens"], "energy") == (2 * energy_mj * 10**6 + 7_000) // 14_000
    assert exact(shown["requests"], "emission") == (2 * emission * 1_000 + 30) // 60


def test_a_restarted_count_is_unknown_and_not_small(
    lab: SmallLab, service: UUID, viewer: Client
) -> None:
    report(lab, service, requests=[10, 30, 2, 50], tokens=[5, 4])
    shown = rows(viewer, service)
    assert "data-problem" in shown["requests"]
    assert "data-problem" in shown["tokens"]
    assert "data-energy" not in "".join(shown.values())


def test_a_service_without_counts_says_how_to_report_them(
    lab: SmallLab, service: UUID, viewer: Client
) -> None:
    assert 'data-empty="serving"' in text_of(viewer.get(f"/runs/{service}/"))
    report(lab, service, requests=[0])
    assert "data-problem" in rows(viewer, service)["requests"]


def test_only_services_serve(lab: SmallLab, viewer: Client) -> None:
    [uuid] = use(lab)
    before = queries(viewer, f"/runs/{uuid}/")
    report(lab, uuid, requests=[1, 2], tokens=[3, 4])
    page = text_of(viewer.get(f"/runs/{uuid}/"))
    assert "serving-title" not in page
    assert queries(viewer, f"/runs/{uuid}/") <= before + 1  # the curve


def test_energy_that_is_not_counted_is_unknown(lab: SmallLab, viewer: Client) -> None:
    [uuid] = use(lab, settle=False)
    Run.objects.filter(uuid=uuid).update(intent=Intent.SERVICE)
    report(lab, uuid, requests=[1, 2])
    shown = rows(viewer, uuid)
    assert "unknown" in shown["requests"]
    assert "title=" not in shown["requests"]
