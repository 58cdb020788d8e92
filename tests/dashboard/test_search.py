"""The search in all of a lab: kinds, prefixes, who may find whom, number of queries."""

from uuid import UUID, uuid4

import pytest
from django.test import Client

from apps.accounts.choices import PersonView, Role
from apps.accounts.models import Lab, Membership, Project, User
from apps.assets.models import Asset
from apps.core.text import uuid_range
from apps.dashboard.search.results import FEW, KINDS
from apps.fleet.models import Device
from apps.runs.models import Run
from apps.runs.services.runs import RunFacts, put_run
from tests.artifacts.support import register_artifact
from tests.assets.support import bought
from tests.builders import T0, SmallLab, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import (
    HOSTILE,
    assert_needs_sign_in,
    assert_only,
    queries,
    text_of,
    use,
)

pytestmark = pytest.mark.django_db
RUN = UUID("7f1d3b52-1111-4333-8444-555566667777")


def search(client: Client, text: str, **more: str) -> str:
    """Return the results as the dialog shows them: a list also of a single one."""
    response = client.get("/search/", {"q": text, **more}, headers={"HX-Request": "true"})
    assert response.status_code == 200
    return text_of(response)


def kinds(page: str) -> set[str]:
    return {kind.key for kind in KINDS if f'data-kind="{kind.key}"' in page}


@pytest.fixture
def filled(lab: SmallLab) -> SmallLab:
    facts = RunFacts(name="resnet on cells", started_us=T0, os_user="ada", project="demo")
    put_run(lab=lab.lab, uuid=RUN, facts=facts, by=lab.owner, bound_node=None)
    bought(lab, name="Cells GPU", serial="SN-4711-XZ")
    register_artifact(lab, "cells.pt")
    Project.objects.create(lab=lab.lab, slug="cell-atlas", name="Atlas of cells", created_us=T0)
    return lab


def test_everything_of_the_lab_is_found_by_name(owner: Client, filled: SmallLab) -> None:
    use(filled)
    assert kinds(search(owner, "cells")) >= {"projects", "runs", "artifacts", "assets"}
    assert kinds(search(owner, "CELLS resnet")) == {"runs"}
    assert "nodes" in kinds(search(owner, filled.node.hostname))
    assert "sites" in kinds(search(owner, "room"))
    assert "people" in kinds(search(owner, filled.owner.username))
    assert "devices" in kinds(search(owner, "GPU-0000-0000"))
    assert 'href="/rules/"' in search(owner, "attribution rules")
    assert 'href="/help/artifacts/#cleanup-plans"' in search(owner, "cleanup plans")
    assert 'data-results="0"' in search(owner, "xyzzyquux")
    assert "data-results" not in search(owner, "  ")


def test_starts_of_uuids_digests_and_serial_numbers(owner: Client, filled: SmallLab) -> None:
    artifact = filled.lab.artifacts.get()
    asset = Asset.objects.get()
    for text, href in (
        ("7f1d3b52", f"/runs/{RUN}/"),
        ("7F1D3B52-11", f"/runs/{RUN}/"),
        (str(RUN), f"/runs/{RUN}/"),
        (RUN.hex, f"/runs/{RUN}/"),
        (str(filled.node.uuid)[:13], f"/nodes/{filled.node.uuid}/"),
        (artifact.digest[:10], f"/artifacts/{artifact.digest}/"),
        (artifact.digest, f"/artifacts/{artifact.digest}/"),
        ("sn-4711", f"/assets/{asset.pk}/"),
    ):
        assert f'href="{href}"' in search(owner, text), text
        if href.startswith("/runs/"):
            assert href in text_of(owner.get("/runs/", {"text": text}))
    assert f"/runs/{RUN}/" not in search(owner, "7f1d3b53")


def test_a_start_of_a_uuid_has_eight_digits() -> None:
    assert uuid_range("7f1d3b5") is None
    assert uuid_range("resnet50") is None
    assert uuid_range("7f1d3b52" * 5) is None
    assert uuid_range("７f1d3b52") is None
    assert uuid_range("7f1d3b52-") == (
        UUID("7f1d3b52-0000-0000-0000-000000000000"),
        UUID("7f1d3b52-ffff-ffff-ffff-ffffffffffff"),
    )


def test_another_lab_finds_nothing_of_ours(
    owner: Client, outsider: Client, filled: SmallLab
) -> None:
    use(filled)
    texts = ("cells", str(RUN)[:8], "SN-4711", filled.node.hostname, "Room", "GPU-0000")
    for text in (*texts, filled.owner.username, filled.lab.artifacts.get().digest[:12]):
        assert kinds(search(owner, text)) - {"help", "pages"}, text
        assert kinds(search(outsider, text)) <= {"help", "pages"}, text


@pytest.mark.parametrize(
    ("policy", "role", "visible"),
    [
        (PersonView.OWN, Role.ADMIN, False),
        (PersonView.PI, Role.MEMBER, False),
        (PersonView.PI, Role.VIEWER, False),
        (PersonView.PI, Role.PI, True),
        (PersonView.LAB, Role.VIEWER, True),
    ],
)
def test_people_are_found_by_those_who_may_see_them(
    lab: SmallLab, policy: PersonView, role: Role, visible: bool
) -> None:
    Lab.objects.filter(pk=lab.lab.pk).update(person_view=policy)
    hidden = User.objects.create_user(username="bartholomew", first_name="Bart", last_name="Roe")
    Membership.objects.create(lab=lab.lab, user=hidden, role=Role.MEMBER)
    visitor = User.objects.create_user(username="visitor", last_name="Roe")
    Membership.objects.create(lab=lab.lab, user=visitor, role=role)
    # neither by what they did
    facts = RunFacts(name="r", started_us=T0, os_user="bartholomew", host="bartholomew-pc")
    put_run(lab=lab.lab, uuid=uuid4(), facts=facts, by=hidden, bound_node=None)
    client = client_of(visitor)
    for text in ("bartholomew", "Bart", "roe"):
        assert (f'href="/people/{hidden.pk}/"' in search(client, text)) == visible
    assert kinds(search(client, "bartholomew")) == ({"people"} if visible else set())
    assert f'href="/people/{visitor.pk}/"' in search(client, "visitor")
    assert f'href="/people/{visitor.pk}/"' in search(client, "roe")


def test_pages_of_managers_are_found_by_managers(owner: Client, viewer: Client) -> None:
    assert 'href="/audit/"' in search(owner, "audit log")
    assert 'href="/audit/"' not in search(viewer, "audit log")


def test_more_results_are_linked(owner: Client, filled: SmallLab) -> None:
    use(filled, runs=FEW + 1, name="many.py")
    for i in range(FEW + 2):
        Project.objects.create(lab=filled.lab, slug=f"many-{i}", name=f"many {i}", created_us=T0)
    page = search(owner, "many")
    assert page.count('href="/runs/') == FEW + 1
    assert 'href="/runs/?text=many" data-result data-all' in page
    assert 'href="/search/?q=many&amp;kind=projects" data-result data-all' in page
    every = search(owner, "many", kind="projects")
    assert every.count('href="/projects/many-') == FEW + 2
    assert "data-all" not in every
    assert kinds(every) == {"projects"}
    assert "data-all" not in search(owner, "cell-atlas")


def test_the_number_of_queries_does_not_depend_on_the_results(
    owner: Client, filled: SmallLab
) -> None:
    few = queries(owner, "/search/?q=cells")
    use(filled, runs=30, name="cells")
    for i in range(30):
        Project.objects.create(lab=filled.lab, slug=f"cells-{i}", name="cells", created_us=T0)
        bought(filled, name=f"cells {i}")
        register_artifact(filled, f"cells-{i}.pt")
        user = User.objects.create_user(username=f"cells-{i}")
        Membership.objects.create(lab=filled.lab, user=user, role=Role.MEMBER)
        Device.objects.create(lab=filled.lab, key=f"gpu:cells-{i}", kind="gpu", node=filled.node)
    assert queries(owner, "/search/?q=cells") == few
    part = queries(owner, "/search/?q=cells", **{"HX-Request": "true"})
    assert part <= few
    assert queries(owner, "/search/?q=xyzzyquux") == few
    assert part <= 16


def test_the_dialog_gets_the_results_alone(owner: Client, filled: SmallLab) -> None:
    part = text_of(owner.get("/search/", {"q": "cells"}, headers={"HX-Request": "true"}))
    assert "<main" not in part
    assert 'data-kind="runs"' in part
    assert text_of(owner.get("/search/", {"q": ""}, headers={"HX-Request": "true"})).strip() == ""


def test_the_only_result_is_opened(owner: Client, filled: SmallLab) -> None:
    """Enter submits the form of the dialog and that of the page."""
    response = owner.get("/search/", {"q": "cell-atlas"})
    assert response.status_code == 302
    assert response["Location"] == "/projects/cell-atlas/"
    for more in ({"q": "cells"}, {"q": "xyzzyquux"}, {"q": ""}):
        assert owner.get("/search/", more).status_code == 200
    listed = owner.get("/search/", {"q": "cell-atlas", "kind": "projects"})
    assert 'href="/projects/cell-atlas/" data-result' in text_of(listed)


def test_hostile_texts_are_text(owner: Client, lab: SmallLab) -> None:
    use(lab, name=HOSTILE)
    Project.objects.create(lab=lab.lab, slug="hostile", name=HOSTILE, created_us=T0)
    for text in (HOSTILE, "alert"):
        page = search(owner, text)
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert {"runs", "projects"} <= kinds(page)
    for text in ("%", "_", "\\", "'", "*", "a" * 5_000, "a " * 5_000, "-" * 36, "'; DROP TABLE x"):
        search(owner, text)
    assert "runs" not in kinds(search(owner, "%"))  # no wildcard
    for text in ("\x00", "a\x00b"):
        response = owner.get("/search/", {"q": text})
        assert response.status_code == 400
        assert 'data-error="400"' in text_of(response)
    assert owner.get("/search/", {"q": "a", "kind": "secrets"}).status_code == 400


def test_access(owner: Client) -> None:
    assert_needs_sign_in("/search/?q=a")
    assert_only(owner, "/search/", "GET")


def test_each_page_has_the_form_and_the_dialog(owner: Client) -> None:
    for address in ("/", "/runs/", "/accounts/security/", "/help/", "/no-such-page/"):
        page = text_of(owner.get(address))
        assert page.count('action="/search/"') == 2, address
        assert 'id="search-dialog"' in page
    for address in ("/accounts/login/", "/help/"):
        assert 'action="/search/"' not in text_of(Client().get(address))


def test_removed_assets_are_not_found(owner: Client, filled: SmallLab) -> None:
    Asset.objects.update(removed_us=T0)
    assert "assets" not in kinds(search(owner, "Cells GPU"))


def test_two_labs_of_one_person_are_apart(owner: Client, filled: SmallLab) -> None:
    other = small_lab(name="Second lab")
    Membership.objects.create(lab=other.lab, user=filled.owner, role=Role.MEMBER)
    put_run(
        lab=other.lab,
        uuid=uuid4(),
        facts=RunFacts(name="cells elsewhere", started_us=T0),
        by=None,
        bound_node=None,
    )
    assert Run.objects.filter(name__contains="cells").count() == 2
    page = search(owner, "cells")
    assert "elsewhere" not in page
