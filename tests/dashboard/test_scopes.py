"""/scopes/ and /scopes.csv: the table of each profile, the same kWh and grand total under both,
whose electricity.
"""

import csv
import io
import re
import uuid

import pytest
from django.test import Client

from apps.accounts.models import AuditEntry
from apps.assets.models import LifecycleEvent
from apps.assets.services import Embodied, Entry, record
from apps.carbon.figures.combined import answer
from apps.carbon.figures.figure_query import TOGETHER, FigureQuery
from apps.carbon.figures.scopes import CONTROLS, LESSON, PROFILES, ROLES, SCOPES, scope_of, within
from apps.carbon.services import apply_factors
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.dashboard.figures import carbon_quantity
from apps.fleet.choices import Control
from apps.fleet.models import Site
from apps.fleet.services import create_site, move_node, register_node, set_control
from tests.assets.support import H0, KG, YEAR, bought
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab
from tests.dashboard.support import (
    HOSTILE,
    PERIOD,
    assert_each_figure_explains_itself,
    assert_needs_sign_in,
    assert_only,
    figures_on,
    queries,
    text_of,
    use,
)
from tests.row_copies import copy_or_create

PAGE = f"/scopes/?{PERIOD}"
NOW = T0 + YEAR * US_PER_HOUR
QUERY = FigureQuery(metric="energy_mj", from_hour=H0 - 32, to_hour=H0 + 184)


@pytest.fixture(autouse=True)
def _later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.dashboard.decorators.now_us", lambda: NOW)


def _filled() -> SmallLab:
    lab = small_lab()
    use(lab, runs=2)
    for i, control in enumerate((Control.CLOUD, Control.INSIDE_BOUNDARY, Control.OUTSIDE_BOUNDARY)):
        site = create_site(lab=lab.lab, name=f"Site {control}", kind="machine_room", zone="FR")  # type: ignore[arg-type]
        set_control(site=site, control=control, by=lab.owner, now=T0)
        node = register_node(
            lab=lab.lab, uuid=uuid.uuid4(), hostname=f"n-{i}", facts={}, site=site, now=T0
        )
        push(node, [W(f"gpu:GPU-{i}-far", 3_000_000 + i)])
    apply_factors(lab=lab.lab)
    bought(lab, kg=4 * YEAR, now=NOW)
    gone = bought(lab, kg=10, name="Old", now=NOW)
    LifecycleEvent.objects.filter(asset=gone, kind="purchase").update(includes_end_of_life=False)
    end = Entry(
        "dispose",
        T0 + 5 * US_PER_HOUR,
        embodied=Embodied(3 * KG, source="the disposer's certificate"),
    )
    record(asset=gone, entry=end, by=lab.owner, now=NOW)
    run_until_idle(worker="test")
    return lab


@pytest.fixture
def lab(db: None, request: pytest.FixtureRequest) -> SmallLab:
    """A small lab; where a test asks for ``filled``, that."""
    return copy_or_create("scopes", _filled) if "filled" in request.fixturenames else small_lab()


@pytest.fixture
def filled(lab: SmallLab) -> SmallLab:
    """A workstation, a cloud node and a cluster; hardware that is used, and a thing whose end of
    life was worse.
    """
    return lab


@pytest.mark.parametrize(
    ("role", "control", "ghg", "lesson"),
    [
    ("operation", "own", "2", "2"), ("operation", "inside_boundary", "2", "2"),
    ("operation", "outside_boundary", "3.1", "2"), ("operation", "cloud", "3.1", "2"),
    ("embodied", "own", "3.2", "3"), ("waste", "own", "3.5", "3"), ("upstream", "own", "3.3", "3"),
],
)  # fmt: skip
def test_the_table_of_the_design(role: str, control: str, ghg: str, lesson: str) -> None:
    assert scope_of("ghg_protocol", role, control) == ghg
    assert scope_of("lesson", role, control) == lesson


def test_every_activity_is_in_one_scope_of_each_profile() -> None:
    assert tuple(Control.values) == CONTROLS
    for profile in PROFILES:
        for role in ROLES:
            for control in CONTROLS:
                scope = scope_of(profile, role, control)
                assert scope in SCOPES[profile]
                assert sum(within(scope, asked) for asked in ("2", "3")) == 1
    with pytest.raises(KeyError):
        scope_of("ghg_protocol", "cow")


def value(lab: SmallLab, **changes: str) -> int:
    return answer(lab.lab, QUERY.replace(**changes), NOW).value


@pytest.mark.parametrize(
    "metric", ["energy_mj", "emission_ug", "embodied_ug", "embodied_inventory_ug", "carbon_ug"]
)
def test_scopes_add_up_to_the_same_total_under_both_profiles(filled: SmallLab, metric: str) -> None:
    whole = value(filled, metric=metric)
    assert whole > 0
    for profile in PROFILES:
        parts = [value(filled, metric=metric, profile=profile, scope=scope) for scope in ("2", "3")]
        assert sum(parts) == whole == value(filled, metric=metric, profile=profile)
    categories = [
        value(filled, metric=metric, scope=scope) for scope in ("3.1", "3.2", "3.3", "3.5")
    ]
    assert sum(categories) == value(filled, metric=metric, scope="3")


def test_electricity_of_others_is_category_1_by_the_ghg_protocol_alone(filled: SmallLab) -> None:
    assert value(filled, scope="3.1") == 3_000_000 + 3_000_002
    assert value(filled, scope="2") == value(filled) - 6_000_002
    assert value(filled, profile=LESSON, scope="2") == value(filled)
    assert value(filled, profile=LESSON, scope="3") == 0


def test_the_scope_follows_the_node_to_its_site(filled: SmallLab) -> None:
    cloud = Site.objects.get(lab=filled.lab, control="cloud")
    push(
        filled.node,
        [W("gpu:GPU-0000-0000", 77, start_us=T0 + 600 * MINUTE, end_us=T0 + 601 * MINUTE, seq=90)],
    )
    before = value(filled, scope="3.1")
    move_node(node=filled.node, site=cloud, from_us=T0 + 10 * US_PER_HOUR, by=filled.owner, now=NOW)
    assert value(filled, scope="3.1") == before + 77


def test_works(filled: SmallLab, owner: Client) -> None:
    for more in ("", "&both=1", "&ledger=embodied_inventory_ug&both=1", "&profile=lesson"):
        page = text_of(owner.get(PAGE + more))
        assert "Grand total" in page
        assert assert_each_figure_explains_itself(owner, page) > 5
    assert "data-beyond-lesson" in page
    assert "Recorded at purchase" in page


@pytest.mark.parametrize("ledger", ["embodied_ug", "embodied_inventory_ug"])
def test_both_profiles_show_the_same_energy_and_total(
    filled: SmallLab, owner: Client, ledger: str
) -> None:
    page = text_of(owner.get(f"{PAGE}&both=1&ledger={ledger}"))
    feet = [figures_on(foot) for foot in re.findall(r"<tr data-total>.*?</tr>", page, re.DOTALL)]
    assert len(feet) == 2
    assert [value for _, value in feet[0]] == [value for _, value in feet[1]]
    for table in re.findall(r"<table.*?</table>", page, re.DOTALL)[:2]:
        body = table[table.index("<tbody>") : table.index("</tbody>")]
        lines = figures_on(body)
        total = figures_on(table[table.index("<tr data-total>") :])
        energy = [value for query, value in lines if "metric=energy_mj" in query]
        carbon = [value for query, value in lines if "metric=energy_mj" not in query]
        assert (sum(energy), sum(carbon)) == tuple(value for _, value in total)


def test_the_disposal_is_category_5(filled: SmallLab) -> None:
    assert value(filled, metric="embodied_ug", scope="3.5") == 3 * KG
    assert value(filled, metric="embodied_inventory_ug", scope="3.5") == 3 * KG
    assert value(filled, metric="embodied_inventory_ug", scope="3.2") == (4 * YEAR + 10) * KG


def test_an_unknown_asset_makes_only_scopes_with_hardware_incomplete(
    filled: SmallLab, owner: Client
) -> None:
    bought(filled, name="Unknown", kg=None, now=NOW)
    sums = {
        scope: carbon_quantity(
            answer(
                filled.lab, QUERY.replace(metric=TOGETHER, profile="ghg_protocol", scope=scope), NOW
            )
        ).at_least
        for scope in ("2", "3.1", "3", "")
    }
    assert sums == {"2": False, "3.1": False, "3": True, "": True}


def test_csv_holds_both_profiles(filled: SmallLab, owner: Client) -> None:
    lines = list(csv.DictReader(io.StringIO(text_of(owner.get(f"/scopes.csv?{PERIOD}")))))
    for profile in PROFILES:
        own = [line for line in lines if line["profile"] == profile]
        for column in ("energy_mj", "emission_ug_co2e"):
            parts = [int(line[column]) for line in own if line["role"] != "total" and line[column]]
            assert sum(parts) == int(own[-1][column]) > 0


def test_who_controls_the_electricity_is_recorded(
    filled: SmallLab, owner: Client, viewer: Client
) -> None:
    before = value(filled, metric="carbon_ug")
    answered = owner.post(PAGE, {"site": filled.site.pk, "control": "outside_boundary"})
    assert answered["Location"] == PAGE
    filled.site.refresh_from_db()
    assert filled.site.control == "outside_boundary"
    assert value(filled, metric="carbon_ug") == before
    entry = AuditEntry.objects.filter(action="site.control").order_by("-sequence").first()
    assert entry is not None
    assert entry.details["control"] == {"from": "own", "to": "outside_boundary"}
    owner.post(f"/sites/{filled.site.pk}/", {"action": "control", "control": "own"})
    filled.site.refresh_from_db()
    assert filled.site.control == "own"
    assert viewer.post(PAGE, {"site": filled.site.pk, "control": "cloud"}).status_code == 403
    for wrong in ({"site": "x", "control": "own"}, {"site": filled.site.pk, "control": "mine"}, {}):
        assert owner.post(PAGE, wrong).status_code == 400
    assert (
        owner.post(
            f"/sites/{filled.site.pk}/", {"action": "control", "control": "mine"}
        ).status_code
        == 400
    )


def test_the_control_of_a_site_of_declared_use_is_recorded(filled: SmallLab, owner: Client) -> None:
    declared = Site.objects.create(lab=filled.lab, name="Cloud", kind="declared")
    assert owner.post(PAGE, {"site": declared.pk, "control": "cloud"}).status_code == 302
    declared.refresh_from_db()
    assert declared.control == "cloud"


def test_the_labs_profile_is_a_setting_with_audit(filled: SmallLab, owner: Client) -> None:
    form = {
        "lab": "Cell Lab",
        "time_zone": "Europe/Berlin",
        "person_view": "pi",
        "profile": "lesson",
    }
    assert owner.post("/settings/", form).status_code == 302
    filled.lab.refresh_from_db()
    assert filled.lab.profile == "lesson"
    page = text_of(owner.get(PAGE))
    assert 'data-profile-name="lesson"' in page
    assert "profile=lesson" in text_of(owner.get(f"/?{PERIOD}"))
    entry = AuditEntry.objects.filter(action="lab.changed").order_by("-sequence").first()
    assert entry is not None
    assert entry.details["profile"] == {"from": "ghg_protocol", "to": "lesson"}
    assert owner.post("/settings/", {**form, "profile": "free"}).status_code == 400


def test_the_switch_stands_on_every_page(filled: SmallLab, owner: Client) -> None:
    page = text_of(owner.get(f"/?{PERIOD}&profile=lesson"))
    assert "Scope profile: Course scheme" in page
    assert "Scope 3 · " in page
    assert "profile=ghg_protocol" in page
    assert assert_each_figure_explains_itself(owner, page) > 10


def test_an_outsider_sees_their_own_lab_only(filled: SmallLab, outsider: Client) -> None:
    page = text_of(outsider.get(PAGE))
    assert "Room 1" not in page
    assert all(value == 0 for _, value in figures_on(page))
    refused = outsider.post(PAGE, {"site": filled.site.pk, "control": "cloud"})
    assert refused.status_code == 400
    assert "data-form-errors" in text_of(refused)


def test_anonymous_wrong_method_and_bad_input(lab: SmallLab, owner: Client) -> None:
    assert_needs_sign_in("/scopes/")
    assert_needs_sign_in("/scopes.csv")
    assert_only(owner, "/scopes/", "GET", "POST")
    assert_only(owner, "/scopes.csv", "GET")
    for bad in ("profile=free", "ledger=both", "from=x&to=y"):
        assert owner.get(f"/scopes/?{bad}").status_code == 400
    assert owner.get("/scopes.csv?ledger=both").status_code == 400


def test_without_assets_hardware_is_not_zero(lab: SmallLab, owner: Client) -> None:
    use(lab)
    page = text_of(owner.get(PAGE))
    assert "no asset is registered" in page
    assert "/assets/discovered/" in page
    assert "scope=3&" not in page


def test_hostile_names_are_text(lab: SmallLab, owner: Client) -> None:
    Site.objects.filter(pk=lab.site.pk).update(name=HOSTILE)
    assert "<script>alert" not in text_of(owner.get(PAGE))


def test_queries_do_not_grow_with_rows(filled: SmallLab, owner: Client) -> None:
    few = queries(owner, PAGE + "&both=1")
    use(filled, runs=9, first=5)
    for i in range(5):
        bought(filled, name=f"Card {i}", now=NOW)
        create_site(lab=filled.lab, name=f"More {i}", kind="machine_room", zone="DE")  # type: ignore[arg-type]
    assert queries(owner, PAGE + "&both=1") == few
