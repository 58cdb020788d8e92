"""Pins, promotions and descriptions: who may, what is refused, that the audit log has each and
an undo takes it back.
"""

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from apps.accounts.audit import with_names
from apps.accounts.models import AuditEntry, Project, User
from apps.artifacts.choices import ArtifactState
from apps.artifacts.models import Artifact, Pin
from apps.artifacts.services import curation
from apps.core.errors import Conflict, Forbidden, InvalidInput
from tests.artifacts.support import create_run, edge, register_artifact
from tests.builders import T0, SmallLab


def logged() -> list[tuple[str, dict[str, Any]]]:
    found = AuditEntry.objects.filter(action__startswith="artifact.").order_by("sequence")
    return [(row.action, with_names(row).details) for row in found]


def said(**more: Any) -> curation.Description:
    return curation.Description(
        **{"kind": "model", "licence": "", "note": "", "tags": {}, "project": None, **more}
    )


def test_a_pin_holds_until_it_is_taken_away(lab: SmallLab) -> None:
    it = register_artifact(lab, "m")
    made = curation.pin(artifact=it, reason="  Cited ", by=lab.owner, now=T0)
    assert (made.reason, made.by, made.from_us, made.ended_us) == ("Cited", lab.owner, T0, None)
    with pytest.raises(Conflict, match="already pinned"):
        curation.pin(artifact=it, reason="again", by=lab.owner, now=T0)
    curation.unpin(artifact=it, by=lab.owner, is_manager=False, now=T0 + 5)
    assert Pin.objects.values_list("ended_us", "ended_by").get() == (T0 + 5, lab.owner.pk)
    with pytest.raises(Conflict, match="not pinned"):
        curation.unpin(artifact=it, by=lab.owner, is_manager=True, now=T0 + 6)
    curation.pin(artifact=it, reason="anew", by=lab.owner, now=T0 + 7)
    assert [action for action, _ in logged()] == [
        "artifact.pinned",
        "artifact.unpinned",
        "artifact.pinned",
    ]
    assert logged()[0][1] == {"name": "m", "reason": "Cited"}


def test_two_pins_at_once_cannot_be(lab: SmallLab) -> None:
    it = register_artifact(lab, "m")
    Pin.objects.create(artifact=it, reason="a", from_us=T0)
    with pytest.raises(IntegrityError), transaction.atomic():
        Pin.objects.create(artifact=it, reason="b", from_us=T0)


def test_anothers_pin_is_taken_away_by_keepers_only(lab: SmallLab) -> None:
    other = User.objects.create_user(username="bob")
    it = register_artifact(lab, "m")
    curation.pin(artifact=it, reason="mine", by=lab.owner, now=T0)
    with pytest.raises(Forbidden, match="Another person"):
        curation.unpin(artifact=it, by=other, is_manager=False, now=T0)
    curation.unpin(artifact=it, by=other, is_manager=True, now=T0)
    assert not it.pins.filter(ended_us=None).exists()


@pytest.mark.parametrize("reason", ["", "  ", "x" * 301, "a\x00b", "\ud800"])
def test_a_pin_needs_a_reason_that_can_be_kept(lab: SmallLab, reason: str) -> None:
    with pytest.raises(InvalidInput) as told:
        curation.pin(artifact=register_artifact(lab, "m"), reason=reason, by=lab.owner, now=T0)
    assert told.value.field == "reason"
    assert logged() == []


def test_promoted_and_taken_back(lab: SmallLab) -> None:
    copied, heard_of = (
        register_artifact(lab, "m", copies=[{"path": "/m"}]),
        register_artifact(lab, "n"),
    )
    for it, before in ((copied, "stored"), (heard_of, "registered")):
        assert curation.promote(artifact=it, by=lab.owner, now=T0).state == "promoted"
        with pytest.raises(Conflict, match="already promoted"):
            curation.promote(artifact=it, by=lab.owner, now=T0)
        assert curation.demote(artifact=it, by=lab.owner, now=T0).state == before
        with pytest.raises(Conflict, match="not promoted"):
            curation.demote(artifact=it, by=lab.owner, now=T0)
    assert logged()[0] == (
        "artifact.promoted",
        {"name": "m", "state": {"from": "stored", "to": "promoted"}},
    )
    assert len(logged()) == 4


PUT = {
    "candidate": curation.mark_candidate,
    "promoted": curation.promote,
    "archived": curation.archive,
}
TAKEN = {
    "candidate": curation.unmark_candidate,
    "promoted": curation.demote,
    "archived": curation.unarchive,
}


def made(lab: SmallLab, name: str = "m", **more: Any) -> Artifact:
    """A model that a run made."""
    return register_artifact(
        lab,
        name,
        **{
            "kind": "model",
            "copies": [{"path": f"/{name}"}],
            "runs": [edge(create_run(lab))],
            **more,
        },
    )


def test_the_best_of_a_run_and_not_any_more(lab: SmallLab) -> None:
    it = made(lab)
    assert curation.mark_candidate(artifact=it, by=lab.owner, now=T0).state == "candidate"
    with pytest.raises(Conflict, match="already a candidate"):
        curation.mark_candidate(artifact=it, by=lab.owner, now=T0)
    assert curation.unmark_candidate(artifact=it, by=lab.owner, now=T0).state == "stored"
    with pytest.raises(Conflict, match="not a candidate"):
        curation.unmark_candidate(artifact=it, by=lab.owner, now=T0)
    assert logged() == [
        ("artifact.candidate", {"name": "m", "state": {"from": "stored", "to": "candidate"}}),
        ("artifact.no_candidate", {"name": "m", "state": {"from": "candidate", "to": "stored"}}),
    ]


@pytest.mark.parametrize(
    ("more", "words"),
    [({"runs": []}, "run that produced"), ({"kind": "log"}, "Only checkpoints and models")],
)
def test_a_candidate_is_a_model_of_a_run(lab: SmallLab, more: dict[str, Any], words: str) -> None:
    it = made(lab, **more)
    with pytest.raises(Conflict, match=words):
        curation.mark_candidate(artifact=it, by=lab.owner, now=T0)
    assert logged() == []


def test_who_only_read_it_did_not_make_it(lab: SmallLab) -> None:
    it = made(lab, runs=[edge(create_run(lab), "used")])
    with pytest.raises(Conflict, match="run that produced"):
        curation.mark_candidate(artifact=it, by=lab.owner, now=T0)


def test_laid_aside_and_taken_up_again(lab: SmallLab) -> None:
    for it, before in ((made(lab), "stored"), (made(lab, "n", copies=[]), "registered")):
        assert curation.archive(artifact=it, by=lab.owner, now=T0).state == "archived"
        with pytest.raises(Conflict, match="already archived"):
            curation.archive(artifact=it, by=lab.owner, now=T0)
        assert curation.unarchive(artifact=it, by=lab.owner, now=T0).state == before
        with pytest.raises(Conflict, match="not archived"):
            curation.unarchive(artifact=it, by=lab.owner, now=T0)
    assert [action for action, _ in logged()] == ["artifact.laid_aside", "artifact.taken_up"] * 2


@pytest.mark.parametrize("before", ["candidate", "archived"])
def test_taken_back_it_is_what_it_was(lab: SmallLab, before: str) -> None:
    it = made(lab)
    PUT[before](artifact=it, by=lab.owner, now=T0)
    for state in (before, "stored"):
        curation.promote(artifact=it, by=lab.owner, now=T0)
        assert curation.demote(artifact=it, by=lab.owner, now=T0).state == state, (
            "as the last promotion found it"
        )
        if state == before:
            TAKEN[before](artifact=it, by=lab.owner, now=T0)


def test_each_way_back_leads_one_step(lab: SmallLab) -> None:
    """However states lie upon each other, the way back comes to its end."""
    it = made(lab)
    for state in ("candidate", "promoted", "archived", "promoted", "archived"):
        assert PUT[state](artifact=it, by=lab.owner, now=T0).state == state
    it.refresh_from_db()
    walked = []
    while it.state in TAKEN:
        it = TAKEN[it.state](artifact=it, by=lab.owner, now=T0)
        walked.append(it.state)
    assert walked == ["promoted", "archived", "promoted", "candidate", "stored"]


def test_what_came_back_as_something_new_is_not_what_it_was(lab: SmallLab) -> None:
    it = made(lab)
    curation.mark_candidate(artifact=it, by=lab.owner, now=T0)
    Artifact.objects.update(state=ArtifactState.TOMBSTONE)
    made(lab)
    assert Artifact.objects.get().state == "stored", "it was found again"
    curation.promote(artifact=it, by=lab.owner, now=T0)
    assert curation.demote(artifact=it, by=lab.owner, now=T0).state == "stored"


@pytest.mark.parametrize(
    ("state", "candidate", "aside"),
    [
        ("promoted", "is promoted", ""), ("archived", "is archived", "already archived"),
        ("scheduled", "open cleanup plan", "open cleanup plan"),
        ("tombstone", "were deleted", "were deleted"),
    ],
)  # fmt: skip
def test_states_that_say_otherwise(lab: SmallLab, state: str, candidate: str, aside: str) -> None:
    it = made(lab)
    Artifact.objects.update(state=state)
    for act, words in ((curation.mark_candidate, candidate), (curation.archive, aside)):
        if words:
            with pytest.raises(Conflict, match=words):
                act(artifact=it, by=lab.owner, now=T0)
            assert (Artifact.objects.get().state, logged()) == (state, [])
    if not aside:
        assert curation.archive(artifact=it, by=lab.owner, now=T0).state == "archived"


def test_what_is_gone_is_not_promoted_what_is_in_a_plan_is_saved(lab: SmallLab) -> None:
    it = register_artifact(lab, "m")
    Artifact.objects.update(state=ArtifactState.TOMBSTONE)
    with pytest.raises(Conflict, match="were deleted"):
        curation.promote(artifact=it, by=lab.owner, now=T0)
    Artifact.objects.update(state=ArtifactState.SCHEDULED)
    assert curation.promote(artifact=it, by=lab.owner, now=T0).state == "promoted"


def test_what_is_gone_is_not_pinned(lab: SmallLab) -> None:
    it = register_artifact(lab, "m")
    Artifact.objects.update(state=ArtifactState.TOMBSTONE)
    with pytest.raises(Conflict, match="copies of this artifact were deleted"):
        curation.pin(artifact=it, reason="x", by=lab.owner, now=T0)


def test_described_and_taken_back(lab: SmallLab) -> None:
    demo = Project.objects.get(lab=lab.lab, slug="demo")
    it = register_artifact(lab, "m", kind="model", tags={"task": "cats"})
    told = said(licence=" MIT ", note="Good.", tags={"task": "dogs", "size": ""}, project=demo)
    entry = curation.describe(artifact=it, description=told, by=lab.owner, now=T0)
    assert entry is not None
    it.refresh_from_db()
    assert (it.licence, it.note, it.tags, it.project) == (
        "MIT",
        "Good.",
        {"task": "dogs", "size": ""},
        demo,
    )
    assert entry.details["project"] == {"from": None, "to": "demo"}
    assert set(entry.details) == {"licence", "note", "tags", "project"}
    assert curation.describe(artifact=it, description=told, by=lab.owner, now=T0) is None
    curation.restore_description(artifact=it, entry=entry, by=lab.owner, now=T0)
    it.refresh_from_db()
    assert (it.licence, it.note, it.tags, it.project) == ("", "", {"task": "cats"}, None)
    assert [action for action, _ in logged()] == ["artifact.described", "artifact.restored"]
    with pytest.raises(Conflict, match="changed again since"):
        curation.restore_description(artifact=it, entry=entry, by=lab.owner, now=T0)


def test_only_what_was_said_of_it_is_taken_back(lab: SmallLab) -> None:
    it, other = register_artifact(lab, "m"), register_artifact(lab, "n")
    entry = curation.describe(artifact=other, description=said(note="x"), by=lab.owner, now=T0)
    curation.promote(artifact=it, by=lab.owner, now=T0)
    promoted = AuditEntry.objects.get(action="artifact.promoted")
    for wrong in (entry, promoted):
        assert wrong is not None
        with pytest.raises(Conflict, match="belongs to another artifact"):
            curation.restore_description(artifact=it, entry=wrong, by=lab.owner, now=T0)


@pytest.mark.parametrize(
    ("told", "field"),
    [
        ({"kind": "thing"}, "kind"),
        ({"licence": "x" * 101}, "licence"),
        ({"note": "x" * 1001}, "note"),
        ({"note": "\x00"}, "note"),
        ({"tags": {"x" * 101: ""}}, "tags"),
        ({"tags": {"a": "x" * 301}}, "tags"),
        ({"tags": {str(i): "" for i in range(65)}}, "tags"),
        ({"tags": {"a": "\ud800"}}, "tags"),
    ],
)
def test_what_cannot_be_kept_is_refused_whole(
    lab: SmallLab, told: dict[str, Any], field: str
) -> None:
    it = register_artifact(lab, "m", kind="model", licence="MIT")
    with pytest.raises(InvalidInput) as refused:
        curation.describe(artifact=it, description=said(**told), by=lab.owner, now=T0)
    assert refused.value.field == field
    it.refresh_from_db()
    assert it.licence == "MIT"
