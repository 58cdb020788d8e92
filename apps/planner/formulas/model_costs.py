"""What a model costs for one sample: parameters, operations, layer outputs. Pure.

They come from a preset (``apps/catalog/data/model_costs.csv``), a layer table, an ONNX file, or the
researcher's own code (``labcarbon-collect plan --model``). All four give this one shape.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LayerCosts:
    """One layer. All counts are for one sample, without the batch."""

    name: str
    kind: str  # 'conv', 'linear', 'relu', … as its source names it
    parameters: int
    macs: int  # multiply-accumulate operations of the forward pass; 1 MAC = 2 FLOPs
    operations: int  # MACs, biases and element-wise operations of the forward pass
    input_elements: int
    output_elements: int


@dataclass(frozen=True, slots=True)
class SavedBytes:
    """Bytes that one sample keeps for the backward pass, by precision of the computation. None is
    unknown.
    """

    fp32: int | None = None
    mixed: int | None = None  # 16-bit computation, 32-bit weights
    fp32_stored_attention: int | None = None  # attention scores are stored
    mixed_stored_attention: int | None = None


@dataclass(frozen=True, slots=True)
class ModelCosts:
    """The costs of one model at one input size. Counts are for one sample. None is unknown."""

    name: str
    input: str  # '3x224x224', '512 tokens'
    parameters: int
    macs: int
    layer_outputs: int  # elements of all leaf outputs: N of the lesson's formula
    parameter_layer_outputs: int | None = None  # of layers with parameters only
    input_elements: int | None = None
    buffer_elements: int = 0
    saved_bytes: SavedBytes = field(default_factory=SavedBytes)
    fixed_bytes_fp32: int = 0  # kept for the backward pass whatever the batch
    fixed_bytes_mixed: int = 0
    largest_output: int | None = None  # elements of the largest output of a layer
    # Most bytes of one sample at once in a forward pass that keeps nothing, without the input.
    forward_bytes_fp32: int | None = None
    # The same in a training with gradient checkpointing of each block, without the gradients.
    checkpointed_bytes_fp32: int | None = None
    layers: tuple[LayerCosts, ...] = ()
    source: str = ""
    origin: str = ""  # of the saved bytes: 'code', 'preset'; '' if there are none
    # Elements of the output of the model, and parameters of its last layer. None: see layers.
    output_elements: int | None = None
    head_parameters: int | None = None
