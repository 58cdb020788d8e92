"""What a model costs for one sample, in the shape that the server accepts. Pure.

The field names are those of ``apps/planner/formulas/model_costs.py``; a test compares them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Dict, Optional, Tuple


@dataclass(frozen=True)
class LayerCosts:
    """One layer. All counts are for one sample, without the batch."""

    name: str
    kind: str
    parameters: int
    macs: int
    operations: int
    input_elements: int
    output_elements: int


@dataclass(frozen=True)
class SavedBytes:
    """Bytes that one sample keeps for the backward pass. None is unknown."""

    fp32: Optional[int] = None
    mixed: Optional[int] = None
    fp32_stored_attention: Optional[int] = None
    mixed_stored_attention: Optional[int] = None


@dataclass(frozen=True)
class ModelCosts:
    """The costs of one model at one input size. Counts are for one sample. None is unknown."""

    name: str
    input: str
    parameters: int
    macs: int
    layer_outputs: int
    parameter_layer_outputs: Optional[int] = None
    input_elements: Optional[int] = None
    buffer_elements: int = 0
    saved_bytes: SavedBytes = field(default_factory=SavedBytes)
    fixed_bytes_fp32: int = 0
    fixed_bytes_mixed: int = 0
    largest_output: Optional[int] = None
    forward_bytes_fp32: Optional[int] = None
    checkpointed_bytes_fp32: Optional[int] = None
    layers: Tuple[LayerCosts, ...] = ()
    source: str = ""
    origin: str = "code"
    output_elements: Optional[int] = None
    head_parameters: Optional[int] = None

    def to_json(self) -> Dict[str, Any]:
        return {**asdict(self), "layers": [asdict(layer) for layer in self.layers]}
