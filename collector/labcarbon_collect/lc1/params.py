"""Selection and names of parameters: aliases, dropped parameters, seeds, and the global batch size.
Pure.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional

from labcarbon_collect.lc1.values import Value, parse_value

# Alias → name. Looked up by a name's last part.
ALIASES: Mapping[str, str] = {
    "learning_rate": "lr", "weight_decay_rate": "weight_decay", "wd": "weight_decay",
    "num_epochs": "epochs", "n_epochs": "epochs", "max_epochs": "epochs",
    "num_train_epochs": "epochs", "bs": "batch_size", "batchsize": "batch_size",
    "train_batch_size": "batch_size", "random_seed": "seed", "manual_seed": "seed",
    "rng_seed": "seed", "random_state": "seed", "global_seed": "seed", "optim": "optimizer",
    "optimiser": "optimizer", "architecture": "arch", "drop_out": "dropout",
}  # fmt: skip
# Dropped as a whole name only: model.name and dataset.name count.
_DROPPED_NAMES = frozenset((
    "name", "run", "run_name", "exp", "exp_name", "experiment", "experiment_name", "job_name",
    "project", "project_name", "entity", "group", "tag", "tags", "notes", "note", "comment",
    "description", "user", "username", "run.name", "job.name", "exp.name", "experiment.name",
    "logger.name",
))  # fmt: skip
# Dropped by the last part of a name.
_DROPPED_LAST_PARTS = re.compile(
    r"out|output|outdir|out_?dir|output_?(dir|path|file|folder)|(save|log|logs|logging|ckpt|"
    r"checkpoint|work|run|result|results|"
    r"tensorboard|tb|cache|tmp|temp|dump|model_save|default_root|trial|hydra_run)_?(dir|path|"
    r"folder|root)|logdir|workdir|"
    r"port|master_port|main_process_port|host|hostname|master_addr|rdzv_\w+|rank|local_rank|"
    r"node_rank|global_rank|machine_rank|"
    r"(log|print|logging|save|saving|checkpoint|ckpt|display|report)_?(every\w*|freq\w*|"
    r"interval\w*|steps|n_steps)|"
    r"save_total_limit|verbose|verbosity|quiet|log_level|loglevel|progress|progress_bar|"
    r"disable_tqdm|"
    r"(num_|n_)?workers|dataloader_num_workers|dataloader_workers|loader_workers|pin_memory|"
    r"prefetch_factor|"
    r"persistent_workers|(num_|n_)?threads|n_jobs|"
    r"(wandb|mlflow|comet|neptune|clearml|aim|tensorboard)\w*|report_to|run_id|experiment_id|"
    r"job_id|run_uuid|logger|"
    r"timestamp|datetime|start_time|date_time|device|gpu_ids?|cuda_device|cuda_visible_devices|"
    r"visible_devices"
)
_SEED = re.compile(r"seed|\w+_seed|seed_\w+")
_DEVICE_BATCH = (
    "per_device_train_batch_size",
    "per_device_batch_size",
    "batch_size_per_gpu",
    "micro_batch_size",
    "batch_per_gpu",
)
_ACCUMULATION = (
    "gradient_accumulation_steps",
    "grad_accum_steps",
    "accumulate_grad_batches",
    "grad_accum",
    "accum_steps",
)
_WORLD_SIZE = ("world_size", "nproc_per_node", "num_processes")
GLOBAL_BATCH = "global_batch_size"


@dataclass(frozen=True)
class SortedParams:
    """A run's parameters by name: those that count, its seeds, and the dropped ones."""

    params: Dict[str, Value] = field(default_factory=dict)
    seeds: Dict[str, Value] = field(default_factory=dict)
    dropped: Dict[str, Value] = field(default_factory=dict)


def flatten(content: Mapping[str, Any]) -> Dict[str, Value]:
    """Return nested mappings as one with dotted names: ``{"a": {"b": 1}}`` is ``{"a.b": 1}``. Text
    is parsed.
    """
    flattened: Dict[str, Value] = {}
    for name, value in content.items():
        if isinstance(value, str):
            value = parse_value(value)
        if isinstance(value, Mapping) and value:
            flattened.update({f"{name}.{inner}": part for inner, part in flatten(value).items()})
        else:
            flattened[str(name)] = value
    return flattened


def plain_name(name: str) -> str:
    """Return a name for comparison: no leading dashes, ``_`` for ``-``, ``.`` for ``/``, NFC."""
    bare = (
        unicodedata.normalize("NFC", name.encode("utf-8", "replace").decode()).strip().lstrip("-+")
    )
    return re.sub(r"[/.]+", ".", bare.replace("-", "_"))


def sort_params(params: Mapping[str, Any], *, world_size: Optional[int] = None) -> SortedParams:
    """Divide a run's parameters into those that count, seeds and dropped ones.

    ``params``: name → value, nested or flat, typed or as text. ``world_size``: number of processes
    that train together, if the launcher reveals it.
    """
    renamed = _apply_aliases(
        {plain_name(name): value for name, value in flatten(params).items() if plain_name(name)}
    )
    sorted_ = SortedParams()
    for name, value in renamed.items():
        last = name.rsplit(".", 1)[-1].lower()
        if _SEED.fullmatch(last):
            sorted_.seeds[name] = value
        elif name.lower() in _DROPPED_NAMES or _DROPPED_LAST_PARTS.fullmatch(last):
            sorted_.dropped[name] = value
        else:
            sorted_.params[name] = value
    _merge_batch_size(sorted_, world_size)
    return sorted_


def _apply_aliases(params: Mapping[str, Value]) -> Dict[str, Value]:
    """Rename by ALIASES, unless the run also has a parameter with that name. Both are then kept."""
    renamed: Dict[str, Value] = {}
    for name, value in params.items():
        head, dot, last = name.rpartition(".")
        alias = f"{head}{dot}{ALIASES.get(last.lower(), last)}"
        renamed[name if alias != name and (alias in params or alias in renamed) else alias] = value
    return renamed


def _merge_batch_size(sorted_: SortedParams, world_size: Optional[int]) -> None:
    """Replace the factors of the global batch size by their product. If one is not an integer, all
    stay.
    """
    parts = {
        name: sorted_.params[name]
        for name in (*_DEVICE_BATCH, *_ACCUMULATION, *_WORLD_SIZE)
        if name in sorted_.params
    }
    if GLOBAL_BATCH in sorted_.params:
        for name in parts:
            sorted_.dropped[name] = sorted_.params.pop(name)
        return
    factors: List[str] = [name for name in parts if name not in _WORLD_SIZE]
    if (
        "batch_size" in sorted_.params
        and (parts or world_size)
        and not any(name in parts for name in _DEVICE_BATCH)
    ):
        factors.append("batch_size")
    sizes = [name for name in factors if name not in _ACCUMULATION]
    if len(sizes) != 1:
        return
    factors += [name for name in parts if name in _WORLD_SIZE][:1]
    product = 1 if any(name in _WORLD_SIZE for name in factors) else world_size or 1
    for name in factors:
        value = sorted_.params[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            return
        product *= value
    for name in factors:
        sorted_.dropped[name] = sorted_.params.pop(name)
    sorted_.params[GLOBAL_BATCH] = product
