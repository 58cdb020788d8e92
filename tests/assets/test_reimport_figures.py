"""A corrected file changes the figures of its assets as a new import of it would set them."""

from typing import Any

import pytest

from apps.assets.models import Asset
from apps.assets.services import csv_import
from apps.assets.services.recompute import differing
from apps.core.errors import Conflict
from tests.assets.test_quantity_lines import imported, read
from tests.builders import T0, SmallLab, small_lab

pytestmark = pytest.mark.django_db


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


def figure_of(lab: SmallLab, head: str, line: str) -> tuple[str, str, int | None]:
    """Return kind, model and µg of the only asset after an import."""
    imported(lab, f"{head}\n{line}\n")
    asset = Asset.objects.select_related("model").get(tag=line.split(",")[0])
    return asset.kind, asset.model.name if asset.model else "", asset.embodied_total_ug


@pytest.mark.parametrize(
    ("head", "first", "second"),
    [
        ("tag,model,bought_on,capacity,location", "Festplatte XY,2023-01-01,1 TB,a",
         "Festplatte XY,2023-01-01,16 TB,a"),
        ("tag,model,bought_on,capacity_gb,status", "Festplatte XY,2023-01-01,960,",
         "Festplatte XY,2023-01-01,3840,"),
        ("tag,name,category,bought_on", "Ding,Monitor,2023-01-01", "Ding,Laptop,2023-01-01"),
        ("tag,name,bought_on,status", "RTX 3090,2023-01-01,", "RTX 4090,2023-01-01,"),
    ],
)  # fmt: skip
def test_a_correction_sets_kind_model_and_figure_as_a_new_import(
    lab: SmallLab, head: str, first: str, second: str
) -> None:
    before = figure_of(lab, head, f"A,{first}")
    fresh = figure_of(lab, head, f"B,{second}")
    assert before != fresh
    assert figure_of(lab, head, f"A,{second}") == fresh
    assert differing(lab=lab.lab, repair=False) == []


@pytest.mark.parametrize(
    ("head", "first", "second"),
    [
        ("tag,model,bought_on,capacity,location", "Festplatte XY,2023-01-01,1 TB,a",
         "Festplatte XY,2023-01-01,,b"),
        ("tag,name,category,bought_on", "Ding,Monitor,2023-01-01", "Ding 2,,2023-01-01"),
        ("tag,name,bought_on,status", "RTX 3090,2023-01-01,", "card of Ada,2023-01-01,"),
        ("tag,name,model,bought_on", "RTX 4090,RTX 3090,2023-01-01", "RTX 4090,,2023-01-01"),
        ("tag,name,embodied_kg,embodied_low_kg,status,bought_on", "x,100,90,,2023-01-01",
         "y,,,,2023-01-01"),
    ],
)  # fmt: skip
def test_an_empty_cell_and_another_name_change_no_figure(
    lab: SmallLab, head: str, first: str, second: str
) -> None:
    before = figure_of(lab, head, f"A,{first}")
    assert figure_of(lab, head, f"A,{second}") == before
    assert read(lab, f"{head}\nA,{second}\n").summary["counts"] == {"known": 1}


def test_two_imports_of_one_list_confirmed_at_once_register_each_serial_number_once(
    lab: SmallLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "name,serial,bought_on,embodied_kg\na,S-1,2023-01-01,100\nb,S-2,2023-01-01,100\n"
    first, second = read(lab, text), read(lab, text)
    previewed = csv_import._previewed

    def read_before_the_other_is_registered(*arguments: Any) -> Any:
        result = previewed(*arguments)
        monkeypatch.setattr(csv_import, "_previewed", previewed)
        csv_import.confirm(row=second, by=lab.owner, now=T0)
        return result

    monkeypatch.setattr(csv_import, "_previewed", read_before_the_other_is_registered)
    with pytest.raises(Conflict) as refused:
        csv_import.confirm(row=first, by=lab.owner, now=T0)
    assert refused.value.field == "serial"
    assert sorted(Asset.objects.values_list("serial", flat=True)) == ["S-1", "S-2"]
    csv_import.confirm(row=first, by=lab.owner, now=T0)
    assert Asset.objects.count() == 2
