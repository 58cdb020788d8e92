"""/runs/compare/ ."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import Client

from apps.runs.models import Fingerprint, Metric, Run
from tests.builders import SmallLab, small_lab
from tests.dashboard.support import (
    HOSTILE,
    assert_each_figure_explains_itself,
    assert_needs_sign_in,
    assert_only,
    queries,
    text_of,
    use,
)


def _print(uuid: UUID, **parts: Any) -> None:
    known: dict[str, Any] = {
        "code": "c" * 64,
        "commit": "ab12cd34ef" * 4,
        "dirty": False,
        "entry": "e" * 64,
        "entry_name": "train.py",
        "params": {"lr": "1" * 32, "depth": "2" * 32},
        "told": {"lr": 0.1},
        "data": "d" * 64,
        "start": "0" * 64,
        "start_name": "scratch",
        "seeds": {"seed": "3" * 32},
        "data_items": [{"role": "data", "name": "cats"}],
    }
    Fingerprint.objects.create(run=Run.objects.get(uuid=uuid), **(known | parts))


def _address(*uuids: UUID) -> str:
    return "/runs/compare/?" + "&".join(f"run={uuid}" for uuid in uuids)


def _two(lab: SmallLab, **parts: Any) -> tuple[UUID, UUID]:
    one, other = use(lab, runs=2)
    _print(one)
    _print(other, **parts)
    return one, other


def test_what_differs_is_said_first(lab: SmallLab, owner: Client) -> None:
    asked = _two(
        lab, params={"lr": "9" * 32, "depth": "2" * 32}, told={"lr": 0.2}, seeds={"seed": "4" * 32}
    )
    page = text_of(owner.get(_address(*asked)))
    assert "<h1>The two runs differ in lr and seed.</h1>" in page
    differs, same = page.split("data-same")
    for words in ("Parameter: lr", ">0.1</td>", ">0.2</td>", "Seed: seed", "#333333", "#444444"):
        assert words in differs
    assert "Parameter: depth" in same
    assert "data: cats" in same
    assert assert_each_figure_explains_itself(owner, page) == 4


def test_the_same_work_is_said(lab: SmallLab, owner: Client) -> None:
    assert "<h1>The two runs did the same work.</h1>" in text_of(owner.get(_address(*_two(lab))))


def test_the_same_but_for_comments(lab: SmallLab, owner: Client) -> None:
    one, other = use(lab, runs=2)
    _print(one, code_normal="n" * 64)
    _print(other, code="f" * 64, commit="", code_normal="n" * 64)
    assert "but for comments and format the same" in text_of(owner.get(_address(one, other)))


def test_data_whose_contents_nobody_read_only_seems_the_same(lab: SmallLab, owner: Client) -> None:
    one, other = use(lab, runs=2)
    _print(one, data="", data_weak="w" * 64)
    _print(other, data="d" * 64, data_weak="w" * 64)
    page = text_of(owner.get(_address(one, other)))
    assert "did the same work, data compared by names, sizes and times only." in page


def test_unknown_is_not_the_same(lab: SmallLab, owner: Client) -> None:
    page = text_of(owner.get(_address(*_two(lab, data="", params=None))))
    assert "Unknown: parameter and data." in page
    assert page.count('data-alike="unknown"') >= 2
    one, other = use(lab, runs=2, first=5)
    assert "Nothing to compare" in text_of(owner.get(_address(one, other)))


def test_a_parameter_that_one_run_did_not_give_is_a_difference(
    lab: SmallLab, owner: Client
) -> None:
    page = text_of(owner.get(_address(*_two(lab, params={"lr": "1" * 32}))))
    assert "The two runs differ in depth." in page


def test_metrics_stand_side_by_side(lab: SmallLab, owner: Client) -> None:
    one, other = _two(lab)
    Metric.objects.create(
        run=Run.objects.get(uuid=one), name="val_acc", count=1, last_value=0.91234567
    )
    page = text_of(owner.get(_address(one, other)))
    assert ">0.9123</td>" in page
    assert '<span class="u">none</span>' in page


def test_csv(lab: SmallLab, owner: Client) -> None:
    one, other = _two(lab, seeds={"seed": "4" * 32})
    Metric.objects.create(run=Run.objects.get(uuid=one), name="loss", count=1, last_value=0.5)
    lines = text_of(owner.get(_address(one, other).replace("compare/", "compare.csv"))).splitlines()
    assert lines[0] == f"part,name,alike,{one},{other}"
    assert "metric,loss,,0.5," in lines
    assert "seeds,seed,differs,#333333,#444444" in lines


@pytest.mark.parametrize(
    "query", ["", "run=x", "run=1", "run={one}", "run={one}&run={one}", "&".join(["run={new}"] * 7)]
)
def test_bad_input_is_told_in_words(lab: SmallLab, owner: Client, query: str) -> None:
    one = use(lab)[0]
    asked = "&".join(part.format(one=one, new=uuid4()) for part in query.split("&"))
    response = owner.get(f"/runs/compare/?{asked}")
    assert response.status_code == 400
    assert "/runs/" in text_of(response)


def test_another_labs_run_is_not_there(lab: SmallLab, owner: Client) -> None:
    theirs = use(small_lab(name="Other"))[0]
    response = owner.get(_address(use(lab)[0], theirs))
    assert response.status_code == 404


def test_names_are_text(lab: SmallLab, owner: Client) -> None:
    page = text_of(
        owner.get(_address(*_two(lab, params={HOSTILE: "1" * 32}, told={HOSTILE: HOSTILE})))
    )
    assert HOSTILE not in page


def test_queries_do_not_grow_with_runs(lab: SmallLab, owner: Client) -> None:
    asked = use(lab, runs=6)
    for uuid in asked:
        _print(uuid)
    assert queries(owner, _address(*asked[:2])) == queries(owner, _address(*asked))


def test_needs_sign_in_and_reads_only(lab: SmallLab, owner: Client) -> None:
    address = _address(*use(lab, runs=2))
    assert_needs_sign_in(address)
    assert_only(owner, address, "GET")
