"""A lab on the direct basis: the factor of the closest zone, else energy without emissions."""

import pytest

from apps.accounts.choices import Basis
from apps.accounts.models import Lab
from apps.carbon.services import apply_factors
from apps.core.units import emission_ug
from tests.builders import SmallLab, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import PERIOD, assert_each_figure_explains_itself, figures_on, text_of
from tests.dashboard.support import use as use_energy

PARTS_MJ = (6_000_001, 4_000_000)  # of support.use
EXPLAIN = f"/explain/?metric=emission_ug&{PERIOD}"

pytestmark = pytest.mark.django_db


def _direct_lab(zone: str) -> SmallLab:
    """Return a lab on the direct basis with energy at a site in ``zone``."""
    lab = small_lab(zone=zone)
    Lab.objects.filter(pk=lab.lab.pk).update(basis=Basis.DIRECT)
    lab.lab.refresh_from_db()
    apply_factors(lab=lab.lab)
    use_energy(lab)
    return lab


@pytest.mark.parametrize(
    ("zone", "priced_as", "year", "ug_per_kwh", "publisher"),
    [
        ("DE", "DE", 2023, 329_000_000, "European Environment Agency"),
        ("US-EGRID-CAMX", "US-EGRID-CAMX", 2023, 195_040_000, "US EPA, eGRID2023"),
        ("AU-NSW", "AU-NSW", 2025, 640_000_000, "DCCEEW"),
        ("CA-ON", "CA-ON", 2026, 59_000_000, "Environment and Climate Change Canada"),
        ("SE-SE3", "SE", 2023, 8_000_000, "European Environment Agency"),
    ],
)
def test_energy_has_the_direct_factor_of_the_closest_zone(
    zone: str, priced_as: str, year: int, ug_per_kwh: int, publisher: str
) -> None:
    lab = _direct_lab(zone)
    owner = client_of(lab.owner)
    value = sum(emission_ug(part, 1_000_000, ug_per_kwh) for part in PARTS_MJ)
    overview = text_of(owner.get(f"/?{PERIOD}"))
    emissions = [found for query, found in figures_on(overview) if "metric=emission_ug" in query]
    assert value in emissions
    assert all("basis=direct" in query for query, _ in figures_on(overview))
    page = text_of(owner.get(EXPLAIN))
    assert f'data-explain-value="{value}"' in page
    factor = page[page.index("data-factor") : page.index('id="sure"')]
    assert f"({priced_as}, direct, annual, " in factor
    assert f" {year}," in factor
    assert publisher in factor
    assert "Licence:" in factor
    assert "Ember" not in page
    assert assert_each_figure_explains_itself(owner, page) >= 3
    site = text_of(owner.get(f"/sites/{lab.site.pk}/"))
    assert publisher in site
    assert "data-no-factor" not in site


@pytest.mark.parametrize("zone", ["JP-TK", "US", "US-MIDA-PJM"])
def test_a_zone_without_a_direct_factor_has_energy_and_no_lifecycle_figure(zone: str) -> None:
    lab = _direct_lab(zone)
    owner = client_of(lab.owner)
    overview = text_of(owner.get(f"/?{PERIOD}"))
    assert "no direct factor" in overview
    assert sum(PARTS_MJ) in [value for _, value in figures_on(overview)]
    assert all("emission_ug" not in query for query, _ in figures_on(overview))
    page = text_of(owner.get(EXPLAIN))
    assert 'data-explain-value="unknown"' in page
    assert "data-no-factor" in page
    assert "data-factor" not in page
    site = text_of(owner.get(f"/sites/{lab.site.pk}/"))
    assert "data-no-factor" in site
    for text in (overview, page, site):
        assert "Ember" not in text


def test_a_lab_on_the_other_basis_keeps_its_figures() -> None:
    direct, lifecycle = _direct_lab("DE"), small_lab(name="Other Lab")
    use_energy(lifecycle)
    assert Lab.objects.get(pk=lifecycle.lab.pk).basis == Basis.LIFECYCLE
    values = [
        figures_on(text_of(client_of(lab.owner).get(EXPLAIN)))[0] for lab in (direct, lifecycle)
    ]
    assert values[0] != values[1]
