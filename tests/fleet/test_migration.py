"""An installation that is upgraded keeps its zones and placements, and one that goes back keeps the latest zone."""

import pytest

from tests.migrating import an_installation

OLD, NEW = ("fleet", "0001_initial"), ("fleet", "0002_places_in_time")


@pytest.mark.django_db
def test_zones_become_histories_and_placements_stay() -> None:
    with an_installation() as migrate:
        old = migrate(*OLD)
        lab = old.get_model("accounts", "Lab").objects.create(slug="old", name="Old", created_us=1)
        sites = old.get_model("fleet", "Site").objects
        berlin = sites.create(lab_id=lab.pk, name="Berlin", kind="workstation", zone="DE")
        nowhere = sites.create(lab_id=lab.pk, name="Nowhere", kind="workstation", zone="")
        old.get_model("fleet", "SitePue").objects.create(site=berlin, from_hour=0, pue_ppm=1_200_000)
        node = old.get_model("fleet", "Node").objects.create(
            lab_id=lab.pk, uuid="7f1d3b52-2222-4333-8444-555566667777", hostname="ws-1", enrolled_us=1
        )
        old.get_model("fleet", "Placement").objects.create(node=node, site=berlin, from_hour=0)
        new = migrate(*NEW)
        zone, placement = new.get_model("fleet", "SiteZone"), new.get_model("fleet", "Placement")
        assert list(zone.objects.values_list("site_id", "from_hour", "zone")) == [(berlin.pk, 0, "DE")]
        assert list(placement.objects.values_list("node_id", "site_id", "from_hour")) == [(node.pk, berlin.pk, 0)]
        assert new.get_model("fleet", "SitePue").objects.get().withdrawn_us is None
        zone.objects.create(site_id=berlin.pk, from_hour=50, zone="FR")
        zone.objects.create(site_id=berlin.pk, from_hour=60, zone="NO", withdrawn_us=1)
        placement.objects.create(node_id=node.pk, site_id=nowhere.pk, from_hour=50)
        placement.objects.create(node_id=node.pk, site_id=berlin.pk, from_hour=70, withdrawn_us=1)
        back = migrate(*OLD)
        assert dict(back.get_model("fleet", "Site").objects.values_list("name", "zone")) == {"Berlin": "FR", "Nowhere": ""}
        ends = back.get_model("fleet", "Placement").objects.order_by("from_hour").values_list("from_hour", "to_hour")
        assert list(ends) == [(0, 50), (50, None)]
