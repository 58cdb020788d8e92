"""A filter that names an unknown record is an error on API, page and CSV, not an empty result. A
record of another lab is unknown too.
"""

import pytest

from apps.accounts.models import Project
from tests.attacks.conftest import World
from tests.attacks.routes import QUERY
from tests.builders import T0

UUID = "00000000-0000-4000-8000-000000000001"
API = (
    f"runs/?node={UUID}",
    "runs/?project=nope",
    "runs/?person=nope",
    "artifacts/?project=nope",
    "activity/?project=nope",
    "activity/?kind=nope",
    "assets/?owner=nope",
    "assets/?site=nope",
    f"figures/{QUERY}&project=nope",
    f"explain/{QUERY}&project=nope",
    f"figures/{QUERY}&subject=node:{UUID}",
    f"figures/{QUERY}&subject=project:nope",
    f"figures/{QUERY}&subject=device:nope",
    f"figures/{QUERY}&subject=run:{UUID}",
    f"figures/{QUERY}&subject=person:999999",
)
PAGES = (
    "/runs/?project=nope",
    "/runs.csv?project=nope",
    "/runs/duplicates/?project=nope",
    "/runs/duplicates.csv?project=nope",
    "/runs/duplicates/?family=1",
    "/runs/duplicates.csv?family=1",
    "/artifacts/?project=nope",
    "/artifacts.csv?project=nope",
    f"/artifacts/?run={UUID}",
    f"/artifacts.csv?run={UUID}",
    "/artifacts/cleanup/?project=nope",
    "/activities/?project=nope",
    "/activities.csv?project=nope",
    "/assets/?owner=nope",
    "/assets.csv?owner=nope",
    "/assets/?site=999999",
    "/assets.csv?site=999999",
    "/assets/labels/?id=999999",
    "/audit/?action=nope",
    "/audit.csv?action=nope",
    f"/explain/{QUERY}&project=nope",
    f"/explain/ledger.csv{QUERY}&project=nope",
    f"/explain/ledger.csv{QUERY}&subject=node:{UUID}",
    f"/explain/ledger.csv{QUERY}&subject=project:nope",
    f"/explain/charges.csv{QUERY.replace('energy_mj', 'embodied_ug')}&project=nope",
)
KNOWN = (
    ("token", "/api/v1/runs/?project=demo"),
    ("token", "/api/v1/runs/?project=~unattributed"),
    ("token", "/api/v1/artifacts/?project=~none"),
    ("token", f"/api/v1/figures/{QUERY}&project=-"),
    ("admin", "/runs.csv?project=~unattributed"),
    ("admin", "/assets.csv?owner=~lab"),
    ("admin", "/assets/?site=~none"),
    ("admin", "/artifacts/?project=~none"),
    ("admin", "/runs/duplicates/?project=~unattributed"),
)


@pytest.mark.django_db
def test_an_unknown_record_is_an_error(world: World, subtests: pytest.Subtests) -> None:
    for visitor, paths in (("token", [f"/api/v1/{path}" for path in API]), ("admin", PAGES)):
        for path in paths:
            with subtests.test(path=path):
                response = world.visitors[visitor].get(path)
                assert response.status_code in {400, 404}
                if visitor == "token":
                    assert response.json()["error"]["field"] in path


@pytest.mark.django_db
def test_a_record_of_another_lab_is_unknown(world: World) -> None:
    Project.objects.create(lab=world.theirs.lab, slug="theirs-only", name="T", created_us=T0)
    node, site = world.theirs.node.uuid, world.theirs.site
    for path in (
        f"/api/v1/runs/?node={node}",
        "/api/v1/runs/?project=theirs-only",
        f"/api/v1/runs/?person={world.theirs.owner.username}",
        "/api/v1/assets/?owner=theirs-only",
    ):
        assert world.visitors["token"].get(path).status_code == 400, path
    assert world.visitors["admin"].get(f"/assets/?site={site.pk}").status_code == 400


@pytest.mark.django_db
def test_known_records_and_their_absence_are_no_error(world: World) -> None:
    for visitor, path in (
        *KNOWN,
        ("token", f"/api/v1/runs/?person={world.ours.owner.username}"),
        ("token", f"/api/v1/runs/?node={world.ours.node.uuid}"),
        ("token", f"/api/v1/assets/?site={world.ours.site.name}"),
    ):
        assert world.visitors[visitor].get(path).status_code == 200, path
