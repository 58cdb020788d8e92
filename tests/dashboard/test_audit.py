"""/audit/ and /audit.csv: who changed what."""

import csv
import io
import json
import re
from collections.abc import Callable
from html import unescape

import pytest
from django.test import Client

from apps.accounts.audit import record, verify, with_names
from apps.accounts.choices import Act, CodePurpose, Role
from apps.accounts.credentials import entry_digest
from apps.accounts.models import AuditEntry
from apps.accounts.services.labs import issue_code
from apps.core.clock import now_us
from tests.api.conftest import Caller, add_person
from tests.builders import T0, SmallLab, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import HOSTILE, assert_needs_sign_in, assert_only, queries, text_of


def _site(lab: SmallLab) -> str:
    return f"/sites/{lab.site.pk}/"


_NOV = {"when": "from", "from_day": "2026-11-02"}


def _move(lab: SmallLab, owner: Client) -> object:
    return owner.post(
        f"/nodes/{lab.node.uuid}/move/", {"action": "move", "site": lab.site.pk, **_NOV}
    )


def _undo(lab: SmallLab, owner: Client) -> object:
    _move(lab, owner)
    latest = lab.node.placements.order_by("-from_hour")[0]
    return owner.post(f"/nodes/{lab.node.uuid}/move/", {"action": "undo", "placement": latest.pk})


def _withdraw(lab: SmallLab, owner: Client) -> object:
    owner.post(_site(lab), {"action": "pue", "pue": "1.4", **_NOV})
    latest = lab.site.pues.order_by("-from_hour")[0]
    return owner.post(_site(lab), {"action": "withdraw", "kind": "pue", "fact": latest.pk})


def _delete(lab: SmallLab, owner: Client) -> object:
    made = owner.post("/sites/", {"name": "Annex", "kind": "machine_room"})
    return owner.post(made["Location"], {"action": "delete"})


ACTS: dict[str, Callable[[SmallLab, Client], object]] = {
    Act.PROJECT_CREATED: lambda lab, owner: owner.post("/projects/", {"name": "Cell Atlas"}),
    Act.LAB_CHANGED: lambda lab, owner: owner.post(
        "/settings/", {"lab": "A", "time_zone": "UTC", "person_view": "own"}
    ),
    Act.INVITATION_CREATED: lambda lab, owner: owner.post("/people/", {"role": "viewer"}),
    Act.TOKEN_CREATED: lambda lab, owner: owner.post(
        "/tokens/", {"name": "x", "scopes": ["runs:read"]}
    ),
    Act.SITE_ZONE: lambda lab, owner: owner.post(
        _site(lab), {"action": "zone", "zone": "France", "when": "always"}
    ),
    Act.SITE_PUE: lambda lab, owner: owner.post(
        _site(lab), {"action": "pue", "pue": "1.4", **_NOV}
    ),
    Act.SITE_CREATED: lambda lab, owner: owner.post(
        "/sites/", {"name": "Annex", "kind": "machine_room", "zone": "FR"}
    ),
    Act.SITE_RENAMED: lambda lab, owner: owner.post(
        _site(lab), {"action": "rename", "name": "Cellar"}
    ),
    Act.SITE_DELETED: _delete,
    Act.SITE_PRICE: lambda lab, owner: owner.post(
        _site(lab), {"action": "price", "price": "1", "currency": "EUR", **_NOV}
    ),
    Act.SITE_WITHDRAWN: _withdraw,
    Act.NODE_MOVED: _move,
    Act.NODE_MOVE_UNDONE: _undo,
    Act.NODE_STATIC_POWER: lambda lab, owner: owner.post(
        f"/nodes/{lab.node.uuid}/", {"choice": "own", "watts": "45"}
    ),
}


@pytest.mark.parametrize("action", ACTS)
def test_what_a_page_does_is_recorded_with_who_did_it(
    lab: SmallLab, owner: Client, action: str
) -> None:
    before = AuditEntry.objects.filter(action=action).count()
    assert ACTS[action](lab, owner).status_code in {200, 302}  # type: ignore[attr-defined]
    rows = list(AuditEntry.objects.filter(lab=lab.lab, action=action))
    assert len(rows) == before + 1
    assert (with_names(rows[-1]).actor, rows[-1].user_id) == (lab.owner.username, lab.owner.pk)
    assert abs(rows[-1].at_us - now_us()) < 60_000_000
    assert str(Act(action).label) in unescape(text_of(owner.get("/audit/")))
    assert verify(lab.lab) is None


def test_enrolment_and_a_terminals_login_are_recorded(lab: SmallLab, owner: Client) -> None:
    for purpose, path, more in (
        (CodePurpose.ENROL, "enrol/", {"node": str(lab.node.uuid), "hostname": "gpu-9"}),
        (CodePurpose.LOGIN, "login/", {}),
    ):
        code = issue_code(purpose=purpose, now=now_us(), lab=lab.lab, user=lab.owner)
        assert Caller(None)("POST", path, {"code": code, **more}).status_code == 201
    enrolled, made = (
        AuditEntry.objects.get(action="node.enrolled"),
        AuditEntry.objects.get(action="token.made"),
    )
    assert (enrolled.subject, with_names(enrolled).actor) == ("gpu-9", lab.owner.username)
    assert (made.details["name"], with_names(made).actor) == ("terminal", lab.owner.username)


def test_what_the_server_does_by_itself_says_so(lab: SmallLab, owner: Client) -> None:
    code = issue_code(purpose=CodePurpose.ENROL, now=now_us(), lab=lab.lab)
    Caller(None)("POST", "enrol/", {"code": code, "node": str(lab.node.uuid), "hostname": "gpu-9"})
    assert AuditEntry.objects.get(action="node.enrolled").actor == "the server"


def test_zero_and_none_are_told_apart(lab: SmallLab, owner: Client) -> None:
    address = f"/nodes/{lab.node.uuid}/"
    owner.post(address, {"choice": "own", "watts": "0"})
    page = re.sub(r"<[^>]+>", "", text_of(owner.get("/audit/?action=node.static_power")))
    assert "power none → 0 W" in page


def test_a_long_list_is_shortened_on_the_page_and_whole_in_the_csv(
    lab: SmallLab, owner: Client
) -> None:
    names = [f"run {i:04}" for i in range(1000)]
    for value in (names, dict.fromkeys(names, "open")):
        record(
            lab=lab.lab,
            by=lab.owner,
            action="repeat.decided",
            subject="1000 findings",
            details={"runs": value},
            now=T0,
        )
    page = text_of(owner.get("/audit/"))
    assert page.count("run 0000") == page.count("run 0019") == 2
    assert "run 0020" not in page
    assert "1\u2009000 in all" in page or "1\u202f000 in all" in page
    assert text_of(owner.get("/audit.csv")).count("run 0999") == 2


def test_filter_and_pages(lab: SmallLab, owner: Client) -> None:
    for i in range(230):
        record(lab=lab.lab, by=lab.owner, action="test.many", subject=f"thing {i}", now=T0 + i)
    page = text_of(owner.get("/audit/?action=test.many"))
    assert "thing 229<" in page
    assert "thing 130<" in page
    assert "thing 129<" not in page
    assert "Lab made" not in page.split("<tbody>")[1]
    seen: list[int] = []
    address = "/audit/?action=test.many"
    for _ in range(5):
        page = text_of(owner.get(address))
        seen += [int(number) for number in re.findall(r"thing (\d+)<", page)]
        older = re.search(r'href="(\?before=[^"]+)">\s*Older', page)
        if older is None:
            break
        address = "/audit/" + older[1].replace("&amp;", "&")
    assert seen == list(range(229, -1, -1))


def test_no_act_of_a_kind(lab: SmallLab, owner: Client) -> None:
    assert 'data-empty="action"' in text_of(owner.get("/audit/?action=member.removed"))


@pytest.mark.parametrize(
    "query",
    ["before=x", "before=-1", "before=" + "9" * 40, "before=²", "action=nope", "action=%00"],
)
def test_bad_input(lab: SmallLab, owner: Client, query: str) -> None:
    assert owner.get(f"/audit/?{query}").status_code == 400


def test_the_csv_proves_itself(lab: SmallLab, owner: Client) -> None:
    ACTS[Act.SITE_PUE](lab, owner)
    rows = list(csv.DictReader(io.StringIO(text_of(owner.get("/audit.csv")))))
    assert len(rows) == AuditEntry.objects.filter(lab=lab.lab).count() >= 3
    previous = ""
    for row in rows:
        fields = {
            "lab_id": lab.lab.pk,
            "sequence": int(row["sequence"]),
            "at_us": int(row["at_us"]),
            "actor": row["actor"],
            "user_id": int(row["user_id"]) if row["user_id"] else None,
            "action": row["action"],
            "subject": row["subject"],
            "details": json.loads(row["details"]),
            "previous": previous,
        }
        assert row["previous_sha256"] == previous
        assert entry_digest(fields) == row["sha256"]
        previous = row["sha256"]


def test_it_is_for_pis_and_admins(lab: SmallLab, viewer: Client) -> None:
    assert client_of(add_person(lab, Role.PI)).get("/audit/").status_code == 200
    for client in (viewer, client_of(add_person(lab, Role.MEMBER))):
        assert client.get("/audit/").status_code == 403
        assert client.get("/audit.csv").status_code == 403
        assert "/audit/" not in text_of(client.get("/people/"))


def test_another_labs_acts_are_neither_shown_nor_counted(
    lab: SmallLab, owner: Client, outsider: Client
) -> None:
    other = small_lab(name="Third Lab")
    newest = AuditEntry.objects.filter(lab=lab.lab).order_by("-sequence")[0].sequence
    record(lab=other.lab, by=other.owner, action="test.secret", subject="secret-thing", now=T0)
    for client in (owner, outsider):
        page = text_of(client.get("/audit/"))
        assert "secret" not in page
        assert "secret" not in text_of(client.get("/audit.csv"))
    record(lab=lab.lab, by=lab.owner, action="test.act", subject="ours", now=T0)
    assert AuditEntry.objects.get(action="test.act").sequence == newest + 1, (
        "numbers do not tell of other labs' acts"
    )


def test_anonymous_and_wrong_method(lab: SmallLab, owner: Client) -> None:
    for address in ("/audit/", "/audit.csv"):
        assert_needs_sign_in(address)
        assert_only(owner, address, "GET")


def test_queries_do_not_grow_with_rows(lab: SmallLab, owner: Client) -> None:
    few = queries(owner, "/audit/")
    for i in range(60):
        record(lab=lab.lab, by=lab.owner, action="test.act", subject=str(i), now=T0)
    assert queries(owner, "/audit/") == few


def test_hostile_names_are_text(lab: SmallLab, owner: Client) -> None:
    record(
        lab=lab.lab,
        by=None,
        actor=HOSTILE,
        action="test.act",
        subject=HOSTILE,
        details={HOSTILE: HOSTILE},
        now=T0,
    )
    assert "<script>alert" not in text_of(owner.get("/audit/"))
    record(
        lab=lab.lab, by=None, actor="=cmd|x", action="test.act", subject="=1+1", details={}, now=T0
    )
    assert "'=1+1" in text_of(owner.get("/audit.csv"))
