"""Grid zones and cloud regions: resolved through shipped tables. Unknown ones are refused."""

import csv
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.models import AuditEntry, Lab
from apps.carbon.factors import factors_of_zone
from apps.carbon.models import AppliedFactor
from apps.carbon.services import DATA as FACTORS
from apps.carbon.services import apply_factors
from apps.core.errors import InvalidInput
from apps.fleet.choices import SiteKind
from apps.fleet.models import Site, SiteZone
from apps.fleet.selectors import unlisted_zones, zone_problems
from apps.fleet.services import correct_zone, create_site, set_zone
from apps.fleet.zones import DATA, cloud_regions, find_zone, resolve_zone, zone_chain, zones
from tests.builders import T0, small_lab

# Cloud regions whose first letters are the code of another country.
MISLEADING = [
    ("sa-east-1", "BR-CS", "BR", "SA"),  # São Paulo, not Saudi Arabia
    ("af-south-1", "ZA", "ZA", "AF"),  # Cape Town, not Afghanistan
    ("me-south-1", "BH", "BH", "ME"),  # Bahrain, not Montenegro
    ("ca-central-1", "CA-QC", "CA", "CA"),
    ("ap-southeast-2", "AU-NSW", "AU", "AP"),
    ("northeurope", "IE", "IE", "NO"),
    ("me-central1", "QA", "QA", "ME"),
    ("cn-north-1", "CN", "CN", "CN"),
]


@pytest.mark.parametrize(("region", "zone", "country", "_not"), MISLEADING)
def test_a_cloud_region_is_its_grid_zone(region: str, zone: str, country: str, _not: str) -> None:
    for text in (
        region,
        region.upper(),
        f" {region} ",
        f"{cloud_regions()[region].provider} {region}",
    ):
        assert resolve_zone(text) == zone
    assert zone_chain(region.upper())[-1] == country
    assert zone_chain(zone)[-1] == country


def test_every_region_has_a_known_zone_with_a_country_that_has_a_factor() -> None:
    with (FACTORS / "annual_lifecycle.csv").open(encoding="utf-8") as file:
        countries = {row["zone"] for row in csv.DictReader(file)}
    assert len(cloud_regions()) > 150
    for region in cloud_regions().values():
        assert region.zone in zones(), region
        assert zone_chain(region.zone)[-1] in countries, region
    for zone in zones().values():
        assert zone_chain(zone.code)[-1] in countries, zone
        assert zone.parent == "" or zones()[zone.parent].parent == ""
    assert countries <= set(zones())


@pytest.mark.parametrize("name", ["zones.csv", "cloud_regions.csv"])
def test_every_row_has_its_source(name: str) -> None:
    with (DATA / name).open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    keys = [row.get("region") or row["zone"] for row in rows]
    assert len(set(keys)) == len(keys)
    assert all(row["source"] for row in rows)


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("sa-east-2", "sa-east-1"),
        ("Germny", "Germany (DE)"),
        ("eu-wst-1", "eu-west-1"),
        ("SA-NORTH", ""),
    ],
)
def test_an_unknown_zone_is_refused_with_suggestions(text: str, offered: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        resolve_zone(text)
    assert refused.value.field == "zone"
    assert offered in refused.value.hint
    assert refused.value.hint


@given(st.text(max_size=30))
def test_any_text_is_refused_or_a_known_zone(text: str) -> None:
    try:
        zone = resolve_zone(text)
    except InvalidInput:
        assert find_zone(text) == ""
    else:
        assert zone in zones() or not text.strip()


@pytest.mark.django_db
def test_every_writer_of_a_zone_resolves_and_refuses() -> None:
    small = small_lab()
    author = {"by": small.owner, "now": T0}
    site = create_site(
        lab=small.lab, name="Cloud", kind=SiteKind.DATA_CENTRE, zone="sa-east-1", **author
    )
    assert site.zones.get().zone == "BR-CS"
    assert AuditEntry.objects.latest("sequence").details["entered"] == "sa-east-1"
    assert set_zone(site=site, zone="af-south-1", from_us=T0, **author).zone == "ZA"
    correct_zone(site=site, zone="me-south-1", **author)
    assert site.zones.get(withdrawn_us=None).zone == "BH"
    before = SiteZone.objects.count()
    for zone in ("sa-east-9", "XX", "SA-EAST", "declared:1:2"):
        with pytest.raises(InvalidInput):
            create_site(lab=small.lab, name="No", kind=SiteKind.DATA_CENTRE, zone=zone, **author)
        with pytest.raises(InvalidInput):
            set_zone(site=site, zone=zone, from_us=2 * T0, **author)
        with pytest.raises(InvalidInput):
            correct_zone(site=site, zone=zone, **author)
    assert SiteZone.objects.count() == before
    assert not Site.objects.filter(name="No").exists()


def _declare(tmp_path: Path, zone: str) -> None:
    path = tmp_path / "declared.csv"
    path.write_text(f"name,from,to,kwh,zone\nJob,2021-01-01,2021-02-01,1,{zone}\n")
    call_command("import_declared", path, stdout=StringIO())


@pytest.mark.django_db
@pytest.mark.parametrize(("region", "zone", "country", "wrong"), MISLEADING[:3])
def test_an_import_prices_a_region_by_its_zone(
    tmp_path: Path, region: str, zone: str, country: str, wrong: str
) -> None:
    small_lab()
    _declare(tmp_path, region)
    site = Site.objects.get(kind=SiteKind.DECLARED)
    assert site.zones.get().zone == zone
    factor = AppliedFactor.objects.filter(node__placements__site=site).latest("from_hour").factor
    assert factor is not None
    assert factor.zone == country


@pytest.mark.django_db
def test_an_import_refuses_an_unknown_zone_with_suggestions(tmp_path: Path) -> None:
    small_lab()
    with pytest.raises(CommandError, match=r"line 2: 'SA-EAST-7' .*sa-east-1"):
        _declare(tmp_path, "sa-east-7")
    assert not Site.objects.filter(kind=SiteKind.DECLARED).exists()


def _stored_by_an_earlier_version(lab: Lab, name: str, kind: SiteKind, zone: str) -> Site:
    site = create_site(lab=lab, name=name, kind=kind, zone="")
    SiteZone.objects.create(site=site, zone=zone, from_hour=0)
    return site


@pytest.mark.django_db
def test_sites_with_such_a_zone_are_listed_at_upgrade_and_priced_by_the_table() -> None:
    small = small_lab()
    _stored_by_an_earlier_version(small.lab, "Cloud", SiteKind.DATA_CENTRE, "SA-EAST-1")
    _stored_by_an_earlier_version(small.lab, "Lost", SiteKind.DATA_CENTRE, "SA-NOWHERE")
    assert {(row.site.name, row.zone, row.grid_zone) for row in unlisted_zones()} == {
        ("Cloud", "SA-EAST-1", "BR-CS"),
        ("Lost", "SA-NOWHERE", ""),
    }
    create_site(lab=small.lab, name="New", kind=SiteKind.DATA_CENTRE, zone="")
    _stored_by_an_earlier_version(small.lab, "Declared", SiteKind.DECLARED, "declared:x")
    create_site(lab=small.lab, name="Without", kind=SiteKind.DECLARED, zone="")
    for zone in ("DE", "SA-NOWHERE"):
        SiteZone.objects.create(
            site=small.site, zone=zone, from_hour=1, withdrawn_us=T0 if zone != "DE" else None
        )
    assert [(row.site.name, row.zone, row.grid_zone) for row in zone_problems(small.lab)] == [
        ("Cloud", "SA-EAST-1", "BR-CS"),
        ("Lost", "SA-NOWHERE", ""),
        ("New", "", ""),
    ]
    out = StringIO()
    call_command("load_data", stdout=out)
    lines = [line for line in out.getvalue().splitlines() if "no grid zone" in line]
    assert len(lines) == 2
    assert any("Cloud" in line and "BR-CS" in line for line in lines)
    assert any("Lost" in line and "no emissions" in line for line in lines)
    assert {factor.zone for factor in factors_of_zone(small.lab, "SA-EAST-1")} == {"BR"}
    assert factors_of_zone(small.lab, "SA-NOWHERE") == []
    apply_factors(lab=small.lab)


@pytest.mark.django_db
def test_a_row_imported_by_an_earlier_version_is_found_again(tmp_path: Path) -> None:
    small = small_lab()
    site = _stored_by_an_earlier_version(
        small.lab, "Declared, SA-EAST-1, PUE 1", SiteKind.DECLARED, "SA-EAST-1"
    )
    _declare(tmp_path, "sa-east-1")
    assert list(Site.objects.filter(kind=SiteKind.DECLARED)) == [site]
