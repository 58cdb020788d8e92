"""The dry run: costs of a model and memory of its training from its own code, under PyTorch's fake
tensors. No tensor of the model is allocated and nothing is computed.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Sequence, Tuple

from labcarbon_collect.errors import CommandError
from labcarbon_collect.plan.blocks import find_parts
from labcarbon_collect.plan.inputs import FORMS, InputSpec
from labcarbon_collect.plan.layer_costs import compute_layers, per_sample, step_flops
from labcarbon_collect.plan.live_bytes import measure_passes
from labcarbon_collect.plan.memory import (
    STATE_COPIES,
    TEMPORARY_COPIES,
    LinearBytes,
    MemoryParts,
)
from labcarbon_collect.plan.model_builder import (
    build_model,
    failure_text,
    gpu_operations,
    make_inputs,
)
from labcarbon_collect.plan.model_code import ModelCode
from labcarbon_collect.plan.model_costs import ModelCosts, SavedBytes
from labcarbon_collect.plan.torch_package import import_torch
from labcarbon_collect.plan.trace import Trace, trace_forward
from labcarbon_collect.plan.trainable import TrainablePart, checkpoint_blocks, freeze

_BATCHES = (2, 4)  # a batch norm refuses 1
_Pair = Sequence[Trace]


@dataclass(frozen=True)
class Training:
    """How the model is trained."""

    batch: int
    optimiser: str
    precision: str  # 'fp32' or 'mixed'
    trainable: TrainablePart = field(default_factory=TrainablePart)
    is_checkpointed: bool = False

    @property
    def is_mixed(self) -> bool:
        return self.precision == "mixed"

    @property
    def changes_model(self) -> bool:
        return self.trainable.kind != "all" or self.is_checkpointed


@dataclass(frozen=True)
class DryRun:
    """The result: costs of the model, and memory of the training."""

    costs: ModelCosts
    training: Training
    trained: str  # in words
    checkpointed: Tuple[str, ...]  # names of blocks
    trainable_parameters: int
    step_flops: int  # of one sample
    saved: LinearBytes
    loss: str
    memory: MemoryParts

    def to_json(self) -> Dict[str, Any]:
        training = self.training
        return {
            "model": self.costs.to_json(),
            "training": {
                "batch": training.batch,
                "optimiser": training.optimiser,
                "precision": training.precision,
                "trainable": training.trainable.text,
                "trained": self.trained,
                "checkpointed": list(self.checkpointed),
                "trainable_parameters": self.trainable_parameters,
                "step_flops": self.step_flops,
                "saved_bytes": self.saved.per_sample,
                "fixed_bytes": self.saved.fixed,
                "loss": self.loss,
                "memory": self.memory.to_json(),
            },
        }


def run_dry(code: ModelCode, specs: Sequence[InputSpec], training: Training) -> DryRun:
    """Build the model and trace it. Raises CommandError."""
    if bool(specs) == (code.inputs is not None):
        raise CommandError(
            "--input is given and the module has a function inputs(batch) too. Remove one of them"
            if specs
            else f"The size of the input is missing. Give it with --input ({FORMS}), or add a "
            f"function inputs(batch) to the module of the model"
        )
    torch = import_torch()
    fake_mode = torch._subclasses.fake_tensor.FakeTensorMode(  # noqa: SLF001
        allow_non_fake_inputs=True
    )
    with contextlib.redirect_stdout(sys.stderr), fake_mode, gpu_operations(torch):
        model = build_model(torch, code, fake_mode)
        _check_vocabulary(torch, model, specs)
        return _Tracer(torch, model, code, specs).run(training)


class _Tracer:
    """Traces of one model."""

    def __init__(self, torch: Any, model: Any, code: ModelCode, specs: Sequence[InputSpec]) -> None:
        self._torch, self._model = torch, model
        self._code, self._specs = code, specs

    def run(self, training: Training) -> DryRun:
        pairs = {is_mixed: self._trace_pair(is_mixed) for is_mixed in (False, True)}
        costs = self._costs(pairs[False], pairs[True])
        trained, checkpointed = self._change_model(training, pairs[False][0])
        pair = pairs[training.is_mixed]
        if training.changes_model:
            pair = self._trace_pair(training.is_mixed)
        small, large = pair
        saved = _line(pair, lambda trace: trace.saved_bytes)
        return DryRun(
            costs=costs,
            training=training,
            trained=trained,
            checkpointed=checkpointed,
            trainable_parameters=sum(int(one.numel()) for one in self._trainable()),
            step_flops=step_flops(self._model, small, large, checkpointed)
            if training.changes_model
            else 6 * costs.macs,
            saved=saved,
            loss=small.loss,
            memory=self._memory(training, saved, _line(pair, lambda trace: trace.input_bytes)),
        )

    def _change_model(self, training: Training, trace: Trace) -> Tuple[str, Tuple[str, ...]]:
        """Freeze and checkpoint parts of the model. Return what is trained, and the blocks."""
        called = list(trace.layers)
        parts = find_parts(self._torch, self._model, called)
        trained = freeze(self._torch, self._model, training.trainable, parts, called)
        if not training.is_checkpointed:
            return trained, ()
        return trained, checkpoint_blocks(self._torch, self._model, parts)

    def _costs(self, fp32: _Pair, mixed: _Pair) -> ModelCosts:
        model, (small, large) = self._model, fp32
        saved = {
            "fp32": _line(fp32, lambda trace: trace.saved_bytes),
            "mixed": _line(mixed, lambda trace: trace.saved_bytes),
        }
        sums = compute_layers(model, small, large)
        return ModelCosts(
            name=type(model).__name__,
            input=self._input_text(small),
            parameters=sum(int(parameter.numel()) for parameter in model.parameters()),
            macs=per_sample(small, large, small.flops, large.flops) // 2,
            layer_outputs=sums.outputs,
            parameter_layer_outputs=sums.parameter_outputs,
            input_elements=per_sample(small, large, small.input_elements, large.input_elements),
            buffer_elements=sum(int(buffer.numel()) for buffer in model.buffers()),
            saved_bytes=SavedBytes(fp32=saved["fp32"].per_sample, mixed=saved["mixed"].per_sample),
            fixed_bytes_fp32=saved["fp32"].fixed,
            fixed_bytes_mixed=saved["mixed"].fixed,
            largest_output=sums.largest_output,
            layers=sums.layers,
            source=f"dry run of {self._code.name} with PyTorch {self._torch.__version__}",
        )

    def _memory(self, training: Training, saved: LinearBytes, inputs: LinearBytes) -> MemoryParts:
        gradients = _total_bytes(self._trainable())
        return MemoryParts(
            weights=_total_bytes(list(self._model.parameters())),
            optimiser_state=STATE_COPIES[training.optimiser] * gradients,
            buffers=_total_bytes(list(self._model.buffers())),
            input=inputs.at(training.batch),
            saved=saved.at(training.batch),
            passes=self._passes(training),
            gradients=gradients,
            optimiser_temporaries=TEMPORARY_COPIES[training.optimiser] * gradients,
        )

    def _passes(self, training: Training) -> int:
        def measure(inputs: Tuple[Any, Any]) -> int:
            return measure_passes(self._torch, self._model, inputs, is_mixed=training.is_mixed)

        return int(self._call(training.batch, measure))

    def _trace_pair(self, is_mixed: bool) -> List[Trace]:
        def trace(batch: int) -> Callable[[Tuple[Any, Any]], Trace]:
            return lambda inputs: trace_forward(
                self._torch, self._model, inputs, batch, is_mixed=is_mixed
            )

        return [self._call(batch, trace(batch)) for batch in _BATCHES]

    def _call(self, batch: int, function: Callable[[Tuple[Any, Any]], Any]) -> Any:
        try:
            return function(make_inputs(self._torch, self._code, self._specs, batch))
        except Exception as error:
            start = f"{self._code.name}: the model fails"
            raise CommandError(failure_text(self._torch, start, error)) from error

    def _trainable(self) -> List[Any]:
        return [parameter for parameter in self._model.parameters() if parameter.requires_grad]

    def _input_text(self, trace: Trace) -> str:
        if self._specs:
            return ", ".join(spec.text for spec in self._specs)
        return f"{trace.input_elements // trace.batch} elements"


def _check_vocabulary(torch: Any, model: Any, specs: Sequence[InputSpec]) -> None:
    rows = [
        int(module.num_embeddings)
        for module in model.modules()
        if isinstance(module, torch.nn.Embedding)
    ]
    for spec in specs:
        if spec.vocabulary and rows and spec.vocabulary > max(rows):
            raise CommandError(
                f"--input has a vocabulary of {spec.vocabulary}, but the largest embedding of the "
                f"model has {max(rows)} rows. Correct one of the two"
            )


def _line(pair: _Pair, quantity: Callable[[Trace], int]) -> LinearBytes:
    small, large = pair
    return LinearBytes.through((small.batch, quantity(small)), (large.batch, quantity(large)))


def _total_bytes(tensors: Sequence[Any]) -> int:
    return sum(int(tensor.numel()) * int(tensor.element_size()) for tensor in tensors)
