"""One hardware list in six formats."""

import pytest

from apps.catalog.models import HardwareModel
from tests.assets.hardware_list import FORMATS, THINGS, things


def test_the_list_has_125_things_and_six_formats() -> None:
    listed = things()
    assert sum(thing.quantity for thing in listed) == THINGS
    assert len({thing.tag for thing in listed}) == len(listed)
    contents = {name: write() for name, (write, _, _) in FORMATS.items()}
    assert len(contents) == 6
    for content in contents.values():
        assert len(content) > 5_000


@pytest.mark.django_db
def test_the_list_names_models_of_the_catalogue() -> None:
    named = {thing.expected_model for thing in things()} - {""}
    shipped = HardwareModel.objects.filter(name__in=named, lab=None)
    assert set(shipped.values_list("name", flat=True)) == named
