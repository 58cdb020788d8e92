"""``plan --onnx``: reads the graph of a file, has the server count it, and prints the costs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, Sequence

from labcarbon_collect.api.planner import plan_onnx, unknown_format
from labcarbon_collect.config import Login
from labcarbon_collect.errors import CommandError
from labcarbon_collect.plan.model_files.graph import read_graph
from labcarbon_collect.plan.model_files.inputs import graph_inputs, input_texts
from labcarbon_collect.plan.model_files.result import InvalidCosts, format_result, parse_result
from labcarbon_collect.plan.text import bytes_text
from labcarbon_collect.plan.trainable import TrainablePart


@dataclass(frozen=True)
class OnnxTraining:
    """How the model of a file is trained."""

    batch: int
    optimiser: str
    precision: str
    trainable: TrainablePart
    is_checkpointed: bool

    def query(self) -> Dict[str, str]:
        """Return the training as parameters of the server. Raises CommandError."""
        if self.trainable.kind == "last-blocks":
            raise CommandError(
                "--trainable last-blocks needs the code of the model, since a graph has no blocks: "
                "labcarbon-collect plan --model"
            )
        query = {
            "batch": str(self.batch),
            "optimiser": self.optimiser,
            "precision": self.precision,
            "trainable": "full" if self.trainable.kind == "all" else self.trainable.kind,
        }
        if self.trainable.kind == "lora":
            query["lora_rank"] = str(self.trainable.count)
        if self.is_checkpointed:
            query["checkpointing"] = "true"
        return query

    @property
    def text(self) -> str:
        checkpointed = ", checkpointed" if self.is_checkpointed else ""
        return f"batch {self.batch}, {self.optimiser}, {self.precision}{checkpointed}"


def run_onnx(
    path: Path,
    forms: Sequence[str],
    training: OnnxTraining,
    login: Login,
    *,
    is_json: bool,
    notify: Callable[[str], None],
) -> int:
    """Print the costs of an ONNX file. Raises CommandError."""
    query = training.query()
    graph = read_graph(path)
    inputs = input_texts(forms, graph_inputs(graph.content))
    notify(
        f"The graph is uploaded without weights: {bytes_text(len(graph.content))} of "
        f"{bytes_text(graph.file_bytes)}"
    )
    body = plan_onnx(login, graph.content, inputs=inputs, training=query)
    try:
        result = parse_result(body)
    except InvalidCosts as error:
        raise unknown_format(login.url) from error
    if is_json:
        print(json.dumps(result.to_json(), indent=2))
    else:
        print("\n".join(format_result(result, training.text, training.trainable.text)))
    return 0
