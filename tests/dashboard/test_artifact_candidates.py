"""/artifacts/<digest>/: models that can be fine-tuned instead."""

from django.test import Client

from tests.artifacts.support import register_artifact, run_jobs, trained_model
from tests.builders import SmallLab, W, push
from tests.dashboard.support import HOSTILE, figures_on, queries, text_of

TITLE = "Fine-tuning candidates"


def section(page: str, title: str = TITLE) -> str:
    return page.split(f">{title}</h2>")[1].split("</section>")[0]


def test_others_are_told_with_why_and_what_they_took(lab: SmallLab, owner: Client) -> None:
    mine = trained_model(lab, "mine.pt", data="cats")
    other = trained_model(
        lab, "other.pt", data="cats-2", metrics={"val_acc": 0.5}, licence="MIT", bytes=91_234_567
    )
    run = other.run_edges.get().run
    push(lab.node, [W("gpu:GPU-1", 4_000_000, shares=((f"run:{run.uuid}", 4_000_000),))])
    run_jobs()
    told = section(text_of(owner.get(f"/artifacts/{mine.digest}/")))
    assert f'href="/artifacts/{other.digest}/">other.pt</a>' in told
    for words in ("the same architecture, data of a like name (cat)", "val_acc 0.5", "91.2", "MIT"):
        assert words in told
    ((query, value),) = figures_on(told)
    assert f"run%3A{run.uuid}" in query
    assert value == 4_000_000


def test_what_is_not_known_is_said(lab: SmallLab, owner: Client) -> None:
    alone = trained_model(lab, "alone.pt")
    assert "Data and purpose are unknown" in section(
        text_of(owner.get(f"/artifacts/{alone.digest}/"))
    )
    cats = trained_model(lab, "cats.pt", data="cats")
    run_jobs()
    assert "No other model with a present copy shares" in section(
        text_of(owner.get(f"/artifacts/{cats.digest}/"))
    )
    trained_model(lab, "more.pt", data="cats-2")
    run_jobs()
    told = section(text_of(owner.get(f"/artifacts/{cats.digest}/")))
    for words in ("no metric", "unknown", "not measured"):
        assert words in told


def test_data_have_models_and_logs_have_none(lab: SmallLab, owner: Client) -> None:
    data, log = (
        register_artifact(lab, "cat-photos", kind="dataset"),
        register_artifact(lab, "cat.log", kind="log"),
    )
    trained_model(lab, "cats.pt", data="cats")
    run_jobs()
    assert "cats.pt" in section(
        text_of(owner.get(f"/artifacts/{data.digest}/")), "Models trained on similar data"
    )
    assert TITLE not in text_of(owner.get(f"/artifacts/{log.digest}/"))


def test_hostile_names_are_shown_as_they_are(lab: SmallLab, owner: Client) -> None:
    mine = trained_model(lab, "mine.pt", tags={"task": "cats"})
    trained_model(lab, HOSTILE, tags={"task": f"cats {HOSTILE}"}, licence=HOSTILE)
    run_jobs()
    page = text_of(owner.get(f"/artifacts/{mine.digest}/"))
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert "<img src=x" not in page


def test_queries_do_not_grow(lab: SmallLab, owner: Client) -> None:
    mine = trained_model(lab, "mine.pt", data="cats", metrics={"acc": 0.1})
    trained_model(lab, "first.pt", data="cats", metrics={"acc": 0.1})
    run_jobs()
    before = queries(owner, f"/artifacts/{mine.digest}/")
    for i in range(9):
        trained_model(lab, f"m{i}.pt", data="cats", metrics={"acc": 0.1})
    run_jobs()
    assert queries(owner, f"/artifacts/{mine.digest}/") == before
