"""Which figure is used: PCF before LCA before parametric before category; own before shipped;
never a superseded one.
"""

from dataclasses import dataclass
from itertools import permutations

import pytest
from django.db import IntegrityError, transaction
from hypothesis import given
from hypothesis import strategies as st

from apps.catalog.choices import FigureMethod
from apps.catalog.matching import trust
from apps.catalog.models import EmbodiedFigure, HardwareModel
from apps.catalog.selectors import best_figure, best_figures, figures_of_model
from tests.builders import T0, SmallLab, small_lab


@dataclass
class Shelf:
    """A shipped model and a way to put figures on it."""

    model: HardwareModel
    lab: SmallLab

    def put(
        self,
        method: str,
        *,
        own: bool = False,
        year: int | None = 2024,
        kg: int = 100,
        **fields: object,
    ) -> EmbodiedFigure:
        facts = {
            "model": self.model,
            "lab": self.lab.lab if own else None,
            "method": method,
            "total_ug": kg * 10**9,
            "low_ug": kg * 10**9,
            "high_ug": kg * 10**9,
            "source": "s",
            "source_year": year,
            "licence": "l",
            "confidence": "read",
            "uploaded_us": T0,
        }
        return EmbodiedFigure.objects.create(**{**facts, **fields})


@pytest.fixture
def shelf(lab: SmallLab) -> Shelf:
    return Shelf(
        HardwareModel.objects.create(kind="gpu", name="G", match_key="g", source="s", licence="l"),
        lab,
    )


@pytest.mark.parametrize("order", list(permutations(["category", "parametric", "lca", "pcf"]))[::5])
def test_the_better_method_is_used_in_whatever_order_they_came(
    shelf: Shelf, order: tuple[str, ...]
) -> None:
    for method in order:
        shelf.put(method)
    listed = figures_of_model(shelf.model, shelf.lab.lab)
    assert [figure.method for figure in listed] == ["pcf", "lca", "parametric", "category"]
    assert best_figure(shelf.model, shelf.lab.lab) == listed[0]


def test_own_goes_before_shipped_of_the_same_method_only(shelf: Shelf) -> None:
    shipped = shelf.put("lca", year=2025)
    assert best_figure(shelf.model, shelf.lab.lab) == shipped
    own = shelf.put("lca", own=True, year=2010)
    assert best_figure(shelf.model, shelf.lab.lab) == own
    better = shelf.put("pcf")
    assert best_figure(shelf.model, shelf.lab.lab) == better, (
        "a shipped footprint is trusted more than an own assessment"
    )


def test_another_lab_s_figure_is_nobody_else_s(shelf: Shelf) -> None:
    shelf.put("pcf", own=True)
    assert best_figure(shelf.model, small_lab(name="Other").lab) is None
    assert best_figure(shelf.model, None) is None


def test_a_superseded_figure_is_not_used(shelf: Shelf) -> None:
    shelf.put("pcf", superseded_us=T0)
    left = shelf.put("category")
    assert best_figure(shelf.model, shelf.lab.lab) == left
    assert [figure.method for figure in figures_of_model(shelf.model, None)] == ["category", "pcf"]


def test_the_newer_source_is_used_of_two_packs(shelf: Shelf) -> None:
    shelf.put("lca", pack="a", year=2020)
    newer = shelf.put("lca", pack="b", year=2024)
    shelf.put("lca", pack="c", year=None)
    assert best_figure(shelf.model, None) == newer


def test_many_models_take_one_query(shelf: Shelf, django_assert_num_queries: object) -> None:
    more = [
        HardwareModel.objects.create(
            kind="gpu", name=f"G{i}", match_key=f"g{i}", source="s", licence="l"
        )
        for i in range(20)
    ]
    for model in more[:10]:
        Shelf(model, shelf.lab).put("lca")
    with django_assert_num_queries(1):  # type: ignore[operator]
        best = best_figures([model.pk for model in more], shelf.lab.lab)
    assert set(best) == {model.pk for model in more[:10]}


KEYS = st.tuples(
    st.sampled_from(FigureMethod.values),
    st.booleans(),
    st.none() | st.integers(1990, 2030),
    st.integers(1, 1000),
)


@given(st.lists(KEYS, min_size=2, max_size=8, unique_by=lambda key: key[3]))
def test_trust_is_one_order_whatever_the_figures(
    keys: list[tuple[str, bool, int | None, int]],
) -> None:
    first = min(keys, key=lambda key: trust(*key))
    methods = FigureMethod.values
    assert methods.index(first[0]) == min(methods.index(key[0]) for key in keys)
    alike = [key for key in keys if key[0] == first[0]]
    assert first[1] or not any(key[1] for key in alike)
    assert len({trust(*key) for key in keys}) == len(keys), (
        "no two are equal: the choice never hangs on chance"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"low_ug": 10**12},
        {"high_ug": 1},
        {"low_ug": -1},
        {"manufacture_ug": -1},
        {"transport_ug": 10**12},
        {"end_of_life_ug": 1, "includes_end_of_life": False},
        {"end_of_life_ug": 1, "includes_end_of_life": None},
        {"source": ""},
        {"licence": ""},
        {"own": True, "pack": "a"},
    ],
    ids=str,
)
def test_the_database_refuses_what_cannot_be(shelf: Shelf, wrong: dict[str, object]) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        shelf.put("lca", **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("own", [True, False])
def test_one_figure_holds_of_a_method_and_unit(shelf: Shelf, own: bool) -> None:
    shelf.put("lca", own=own, superseded_us=T0)
    shelf.put("lca", own=own)
    shelf.put("lca", own=own, unit="per_tb")
    with pytest.raises(IntegrityError), transaction.atomic():
        shelf.put("lca", own=own)


def test_a_model_stands_once(shelf: Shelf) -> None:
    facts = {"kind": "gpu", "name": "G", "match_key": "g", "source": "s", "licence": "l"}
    HardwareModel.objects.create(lab=shelf.lab.lab, **facts)
    for lab in (None, shelf.lab.lab):
        with pytest.raises(IntegrityError), transaction.atomic():
            HardwareModel.objects.create(lab=lab, **facts)
    HardwareModel.objects.create(lab=small_lab(name="Other").lab, **facts)
    with pytest.raises(IntegrityError), transaction.atomic():
        HardwareModel.objects.create(lab=shelf.lab.lab, **{**facts, "name": "H", "pack": "a"})
