"""What a model has in common with work to come: words, weights, and the likeliest first."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from apps.artifacts.models import Artifact, Copy, ReuseTerm
from apps.artifacts.reuse.model_index import find_reusable, terms_of_run
from apps.artifacts.reuse.similarity import (
    MAX_TERMS,
    TermKind,
    rank_similar,
    significant_words,
    terms_of_model,
    terms_of_work,
)
from apps.artifacts.services.curation import archive, mark_candidate
from apps.core.jobs import run_until_idle
from apps.core.models import Job
from apps.runs.models import Run
from apps.runs.services.fingerprints import put_fingerprint
from tests.artifacts.support import create_run, edge, register_artifact, register_rows, row
from tests.builders import T0, SmallLab
from tests.runs.fingerprints import hex64, parsed

K = TermKind


@pytest.mark.parametrize(
    ("text", "found"),
    [
    ("cat-boxes_v2", ["cat", "box"]), ("CatsAndDogs", ["cat", "dog"]),
    ("imagenet-1k", ["imagenet"]), ("train_data_final.csv", []), ("categories", ["category"]),
    ("glass", ["glass"]), ("corpus", ["corpus"]), ("Straßen-Bäume", ["straßen", "bäume"]), ("", []),
    ("2024", []), ("a/b/c", []), ("x" * 90, ["x" * 40]),
],
)  # fmt: skip
def test_words_that_say_something(text: str, found: list[str]) -> None:
    assert significant_words(text) == found


def test_terms() -> None:
    found = terms_of_work(
        data="d" * 64,
        data_names=["cat-boxes"],
        params={"arch": "a1", "lr": "b2"},
        values={"model": "ResNet50"},
        tags={"task": "detection"},
    )
    assert found == [
        (K.SAME_DATA, "d" * 40),
        (K.DATA_WORD, "cat"),
        (K.DATA_WORD, "box"),
        (K.SAME_ARCHITECTURE, "arch:a1"),
        (K.MODEL_WORD, "resnet"),
        (K.MODEL_WORD, "res"),
        (K.MODEL_WORD, "net"),
        (K.PURPOSE_WORD, "detection"),
    ] or found[-1] == (K.PURPOSE_WORD, "detection")
    assert terms_of_model(
        facts={"architectures": ["BertModel"], "parameters": 5}, tags={"task": "cats"}
    ) == [
        (K.MODEL_WORD, "bert"),
        (K.PURPOSE_WORD, "cat"),
    ]


@given(st.lists(st.text(max_size=30), max_size=60))
def test_terms_are_few_and_short(names: list[str]) -> None:
    found = terms_of_work(data="", data_names=names, params={}, values={}, tags={})
    assert len(found) <= MAX_TERMS
    assert all(0 < len(term) <= 40 for _, term in found)


def test_an_architecture_alone_is_no_reason_and_rare_things_say_more() -> None:
    shared = [
        (1, K.SAME_ARCHITECTURE, "arch:a"),
        (2, K.DATA_WORD, "cat"),
        (3, K.DATA_WORD, "photo"),
        (4, K.DATA_WORD, "cat"),
        (4, K.SAME_ARCHITECTURE, "arch:a"),
    ]
    found = rank_similar(
        ((pk, kind, term) for pk, kind, term in shared), {(K.DATA_WORD, "photo"): 400}
    )
    assert [each.artifact for each in found] == [4, 2, 3]
    assert found[0].shared == (K.SAME_ARCHITECTURE, K.DATA_WORD)
    assert found[0].words == ("cat",)


def _model(
    lab: SmallLab, name: str, *, data: str = "cats", state: str = "stored", **more: Any
) -> Artifact:
    """A model that a run on some data made."""
    run = create_run(lab)
    items = [{"role": "data", "name": data, "files": 1, "bytes": 1, "state": "verified"}]
    put_fingerprint(run=run, payload=parsed(data={"verified": hex64(data), "items": items}))
    found = register_artifact(
        lab, name, kind="model", copies=[{"path": f"/{name}"}], runs=[edge(run)], **more
    )
    Artifact.objects.filter(pk=found.pk).update(state=state)
    return found


def test_of_equally_likely_ones_candidates_come_first_and_archived_ones_last(lab: SmallLab) -> None:
    for name in ("chosen.pt", "plain.pt", "aside.pt"):
        _model(lab, name)
    mark_candidate(artifact=Artifact.objects.get(name="chosen.pt"), by=lab.owner, now=T0)
    archive(artifact=Artifact.objects.get(name="aside.pt"), by=lab.owner, now=T0)
    _settle()
    found = find_reusable(lab.lab, terms_of_run(_work(lab, "cats")))
    assert [each.artifact.name for each in found] == ["chosen.pt", "plain.pt", "aside.pt"]


def _work(lab: SmallLab, data: str) -> Run:
    run = create_run(lab)
    items = [{"role": "data", "name": data, "files": 1, "bytes": 1, "state": "verified"}]
    put_fingerprint(run=run, payload=parsed(data={"verified": hex64(data), "items": items}))
    return run


def _settle() -> None:
    Job.objects.update(due_us=0)
    run_until_idle(worker="test")


def test_models_of_like_data_are_found_the_likeliest_first(lab: SmallLab) -> None:
    _model(lab, "cats.pt", facts={"task": "classification"})
    _model(lab, "promoted.pt", state="promoted")
    _model(lab, "dogs.pt", data="dogs")
    register_rows(lab, row("lost.pt", kind="model", tags={"task": "cat"}))  # nobody has its bytes
    _settle()
    run = _work(lab, "cat-boxes")
    found = find_reusable(lab.lab, terms_of_run(run), limit=5)
    assert [each.artifact.name for each in found] == ["promoted.pt", "cats.pt"]
    assert found[0].why == "the same architecture, data of a like name (cat)"
    assert found[0].producing_run is not None
    assert [
        each.artifact.name for each in find_reusable(lab.lab, terms_of_run(_work(lab, "dogs")))
    ] == ["dogs.pt"]
    assert find_reusable(lab.lab, terms_of_run(_work(lab, "weather"))) == []
    assert find_reusable(lab.lab, []) == []


def test_of_a_run_one_model_and_of_what_is_gone_none(lab: SmallLab) -> None:
    first = _model(lab, "epoch1.pt")
    maker = Run.objects.get(artifact_edges__artifact=first)
    register_artifact(
        lab, "epoch2.pt", kind="checkpoint", copies=[{"path": "/2"}], runs=[edge(maker)]
    )
    _settle()
    terms = terms_of_run(_work(lab, "cats-2"))
    assert [each.artifact.name for each in find_reusable(lab.lab, terms)] == ["epoch2.pt"]
    Copy.objects.update(state="missing")
    assert find_reusable(lab.lab, terms) == []


def test_what_is_told_anew_is_found_anew(lab: SmallLab) -> None:
    register_artifact(lab, "a.pt", kind="model", copies=[{"path": "/a"}])
    _settle()
    assert not ReuseTerm.objects.exists()
    register_artifact(lab, "a.pt", tags={"task": "cat detection"})
    _settle()
    assert set(ReuseTerm.objects.values_list("term", flat=True)) == {"cat", "detection"}
    _settle()
    assert ReuseTerm.objects.count() == 2


def test_labs_are_apart_and_queries_do_not_grow(lab: SmallLab) -> None:
    from tests.builders import small_lab

    for i in range(3):
        _model(lab, f"cats{i}.pt")
    _settle()
    terms = terms_of_run(_work(lab, "cats"))
    assert find_reusable(small_lab(name="Other").lab, terms) == []

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            find_reusable(lab.lab, terms)
        return len(captured)

    before = queries()
    assert before <= 5
    for i in range(9):
        _model(lab, f"more{i}.pt")
    _settle()
    assert queries() == before


def test_an_architectures_word_is_none_of_the_datas() -> None:
    shared = [
        (1, TermKind.MODEL_WORD, "resnet"),
        (1, TermKind.SAME_ARCHITECTURE, "h"),
        (1, TermKind.DATA_WORD, "cat"),
    ]
    (offer,) = rank_similar(shared, {})
    assert offer.words == ("cat",)
    (offer,) = rank_similar([(1, TermKind.SAME_DATA, "d"), (1, TermKind.MODEL_WORD, "resnet")], {})
    assert offer.words == ("resnet",)
