"""Saved views of /runs/, and tags and comments of a run."""

import re

import pytest
from django.test import Client

from apps.accounts.models import AuditEntry, Project
from apps.runs.models import Run, RunComment, SavedView
from tests.builders import T0, SmallLab
from tests.dashboard.support import queries, text_of, use

QUERY = "sweep=lr&sort=-energy&show=sweep&show=energy"


def save(client: Client, name: str = "Sweep", query: str = QUERY, **more: str) -> int:
    data = {"action": "save", "name": name, "query": query, **more}
    return client.post("/runs/", data).status_code


def views_on(page: str) -> list[str]:
    return re.findall(r'data-view="([^"]*)"', page)


def test_a_view_is_the_address_of_the_list(lab: SmallLab, owner: Client) -> None:
    use(lab)
    assert save(owner, query=f"{QUERY}&page=3&nonsense=1") == 302
    assert SavedView.objects.get().query == QUERY
    page = text_of(owner.get(f"/runs/?{QUERY}"))
    assert views_on(page)[-1] == "Sweep"
    assert re.search(r'data-view="Sweep" aria-current="true"', page)
    assert save(owner, query="sort=name") == 302
    assert SavedView.objects.get().query == "sort=name"


def test_own_views_are_private_and_those_of_the_lab_are_not(
    lab: SmallLab, owner: Client, member: Client, viewer: Client, outsider: Client
) -> None:
    assert save(owner, "Own") == 302
    assert save(owner, "Lab", for_lab="on") == 302
    assert views_on(text_of(owner.get("/runs/")))[-2:] == ["Own", "Lab"]
    for client in (member, viewer):
        assert views_on(text_of(client.get("/runs/")))[-2:] == ["Failed", "Lab"]
    assert "Lab" not in views_on(text_of(outsider.get("/runs/")))
    assert save(member, "Mine too", for_lab="on") == 403
    assert save(viewer) == 403
    for view in SavedView.objects.all():
        assert member.post("/runs/", {"action": "delete", "view": view.pk}).status_code == 403
        assert outsider.post("/runs/", {"action": "delete", "view": view.pk}).status_code == 400
        assert owner.post("/runs/", {"action": "delete", "view": view.pk}).status_code == 302
    assert not SavedView.objects.exists()
    actions = list(AuditEntry.objects.order_by("-sequence").values_list("action", flat=True)[:2])
    assert actions == ["run_view.deleted", "run_view.saved"]


def test_the_default_view_opens_with_the_list_as_long_as_it_is_valid(
    lab: SmallLab, owner: Client, member: Client
) -> None:
    Project.objects.create(lab=lab.lab, slug="gone", name="Gone", created_us=T0)
    save(owner, "Of the lab", "project=gone", for_lab="on", is_default="on")
    assert member.get("/runs/")["Location"] == "/runs/?project=gone"
    save(owner, "Own", "sort=-energy", is_default="on")
    assert owner.get("/runs/")["Location"] == "/runs/?sort=-energy"
    save(owner, "Other", "sort=name", is_default="on")
    assert owner.get("/runs/")["Location"] == "/runs/?sort=name"
    assert owner.get("/runs/?sort=-started").status_code == 200
    Project.objects.filter(slug="gone").delete()
    assert member.get("/runs/").status_code == 200
    assert member.get("/runs/?project=gone").status_code == 400


@pytest.mark.parametrize("query", ["sort=mass", "project=nope", "show=x", "clip=1", "text=%00"])
def test_an_invalid_view_is_not_saved(lab: SmallLab, owner: Client, query: str) -> None:
    assert save(owner, query=query) == 400
    assert not SavedView.objects.exists()


def test_queries_do_not_grow_with_views(lab: SmallLab, owner: Client) -> None:
    save(owner, "0")
    before = queries(owner, "/runs/?sort=name")
    for i in range(1, 20):
        save(owner, str(i))
    assert queries(owner, "/runs/?sort=name") == before


def test_tags_are_changed_and_audited(lab: SmallLab, owner: Client, viewer: Client) -> None:
    run = use(lab)[0]
    address = f"/runs/{run}/"
    tag = {"action": "tag", "name": "checkpoint", "text": "a.pt"}
    assert viewer.post(address, tag).status_code == 403
    assert owner.post(address, tag)["Location"] == f"{address}#notes"
    assert owner.post(address, {**tag, "name": "paper", "text": ""}).status_code == 302
    assert Run.objects.get(uuid=run).tags == {"checkpoint": "a.pt", "paper": ""}
    assert 'data-tag="paper"' in text_of(owner.get(address))
    assert ">checkpoint: a.pt<" in text_of(owner.get("/runs/?show=tags"))
    assert owner.post(address, {"action": "untag", "name": "checkpoint"}).status_code == 302
    assert owner.post(address, {"action": "untag", "name": "checkpoint"}).status_code == 404
    assert Run.objects.get(uuid=run).tags == {"paper": ""}
    entry = AuditEntry.objects.filter(action="run.tags_changed").latest("sequence")
    assert entry.details == {"tag": "checkpoint", "before": "a.pt", "after": None}
    assert owner.post(address, {"action": "tag", "name": "x" * 201}).status_code == 400
    assert owner.post(address, {"action": "tag", "name": ""}).status_code == 400


def test_comments_belong_to_their_author_and_managers_delete_them(
    lab: SmallLab, owner: Client, member: Client, viewer: Client, outsider: Client
) -> None:
    address = f"/runs/{use(lab)[0]}/"
    text = {"action": "comment", "text": "<b>diverged</b>\nsecond line"}
    assert viewer.post(address, text).status_code == 403
    assert outsider.post(address, text).status_code == 404
    assert owner.post(address, text).status_code == 302
    assert member.post(address, {**text, "text": "mine"}).status_code == 302
    page = text_of(viewer.get(address))
    assert page.count("data-comment=") == 2
    assert "<b>diverged" not in page
    first, second = RunComment.objects.order_by("pk")
    for comment, client, status in ((first, member, 403), (second, owner, 302)):
        data = {"action": "uncomment", "comment": comment.pk}
        assert client.post(address, data).status_code == status
    assert AuditEntry.objects.filter(action="run.comment_deleted").count() == 1
    gone = {"action": "uncomment", "comment": second.pk}
    assert owner.post(address, gone).status_code == 400
    assert owner.post(address, {**text, "text": "\x00"}).status_code == 400
