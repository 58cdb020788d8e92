"""The shipped presets: 20 models within 1 % of their published figures."""

from decimal import Decimal

import pytest

from apps.catalog.data_files import rows_of
from apps.planner.presets import PRESETS, presets

ROWS = {row["name"]: row for row in rows_of(PRESETS)}


def test_there_are_20_presets_in_the_order_of_the_table() -> None:
    assert len(presets()) == 20
    assert list(presets()) == list(ROWS)


@pytest.mark.parametrize(
    "name", [name for name, row in ROWS.items() if row["published_parameters_m"]]
)
def test_parameters_are_within_one_percent_of_the_published_figure(name: str) -> None:
    published = Decimal(ROWS[name]["published_parameters_m"]) * 10**6
    assert abs(presets()[name].parameters - published) * 100 <= published
    assert ROWS[name]["published_source"]


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row["published_gmacs"]])
def test_macs_are_within_one_percent_of_the_published_figure(name: str) -> None:
    published = Decimal(ROWS[name]["published_gmacs"]) * 10**9
    assert abs(presets()[name].macs - published) * 100 <= published


def test_only_own_models_have_no_published_figure() -> None:
    assert [name for name, row in ROWS.items() if not row["published_parameters_m"]] == [
        "unet_small"
    ]
    assert sum(1 for row in ROWS.values() if row["published_gmacs"]) == 10


def test_a_preset_has_the_figures_of_its_row() -> None:
    preset = presets()["bert_base_512"]
    assert (preset.input, preset.input_elements) == ("512 tokens", 512)
    assert preset.saved_bytes.fp32 == 315_374_352
    assert preset.saved_bytes.mixed_stored_attention == 389_002_512
    assert (preset.fixed_bytes_fp32, preset.fixed_bytes_mixed) == (4_100, 171_056_132)
    assert preset.origin == "preset"


def test_an_empty_cell_is_unknown() -> None:
    assert presets()["resnet50"].saved_bytes.fp32_stored_attention is None
    assert presets()["gpt2_small"].head_parameters is None  # shared with the embedding
    assert presets()["resnet50"].head_parameters == 2_049_000
