"""Presets: model costs of well-known models from ``apps/catalog/data/model_costs.csv``."""

from functools import cache
from types import MappingProxyType

from apps.catalog.data_files import Row, rows_of
from apps.catalog.packs import DATA
from apps.planner.formulas.layer_shapes import element_count, read_shape
from apps.planner.formulas.model_costs import ModelCosts, SavedBytes

PRESETS = DATA / "model_costs.csv"
# Presets that differ in size only.
_FAMILIES = (
    ("resnet18", "resnet26", "resnet34", "resnet50"),
    ("vit_b_16", "vit_l_16"),
    ("bert_base_512", "bert_large_512"),
    ("gpt2_small", "gpt2_medium"),
    ("llama2_7b", "llama2_70b"),
)


@cache
def presets() -> MappingProxyType[str, ModelCosts]:
    """Return the shipped model costs by name, in the order of the table."""
    return MappingProxyType({row["name"]: _model_costs(row) for row in rows_of(PRESETS)})


def _model_costs(row: Row) -> ModelCosts:
    return ModelCosts(
        name=row["name"],
        input=row["input"],
        parameters=int(row["parameters"]),
        macs=int(row["macs"]),
        layer_outputs=int(row["layer_outputs"]),
        parameter_layer_outputs=int(row["parameter_layer_outputs"]),
        input_elements=element_count(read_shape(row["input"])),
        buffer_elements=int(row["buffer_elements"]),
        saved_bytes=SavedBytes(
            fp32=_int(row["saved_fp32_bytes"]),
            mixed=_int(row["saved_mixed_bytes"]),
            fp32_stored_attention=_int(row["saved_fp32_stored_attention_bytes"]),
            mixed_stored_attention=_int(row["saved_mixed_stored_attention_bytes"]),
        ),
        forward_bytes_fp32=_int(row["forward_fp32_bytes"]),
        checkpointed_bytes_fp32=_int(row["checkpointed_fp32_bytes"]),
        fixed_bytes_fp32=int(row["fixed_fp32_bytes"]),
        fixed_bytes_mixed=int(row["fixed_mixed_bytes"]),
        largest_output=int(row["largest_output"]),
        source=row["source"],
        origin="preset",
        output_elements=int(row["output_elements"]),
        head_parameters=_int(row["head_parameters"]),
    )


def _int(text: str) -> int | None:
    return int(text) if text else None


def smaller_preset(name: str) -> ModelCosts | None:
    """Return the largest preset of the family with at most half of the MACs, None without one."""
    family = next((names for names in _FAMILIES if name in names), ())
    half = [presets()[each] for each in family if 2 * presets()[each].macs <= presets()[name].macs]
    return max(half, key=lambda model: model.macs, default=None)
