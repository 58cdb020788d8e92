"""Selection and names of parameters: aliases, labels, irrelevant parameters, seeds, and the global
batch size. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import Any, Collection, Dict, List, Mapping, Optional

from labcarbon_collect.lc1.values import Value, canonical, parse_value

# Alias → name. Looked up by a name's last part.
ALIASES: Mapping[str, str] = {
    "learning_rate": "lr", "weight_decay_rate": "weight_decay", "wd": "weight_decay",
    "num_epochs": "epochs", "n_epochs": "epochs", "max_epochs": "epochs",
    "num_train_epochs": "epochs", "bs": "batch_size", "batchsize": "batch_size",
    "train_batch_size": "batch_size", "random_seed": "seed", "manual_seed": "seed",
    "rng_seed": "seed", "random_state": "seed", "global_seed": "seed", "optim": "optimizer",
    "optimiser": "optimizer", "global_batch": "global_batch_size",
    "train_global_batch_size": "global_batch_size", "architecture": "arch", "drop_out": "dropout",
}  # fmt: skip
# Labels: they name a run, and usually have no influence. Some programs select work by them.
# Labels as a whole name only: model.name and dataset.name count.
_LABEL_NAMES = frozenset((
    "name", "run", "exp", "experiment", "project", "entity", "group", "user", "username",
    "logger.name",
))  # fmt: skip
# Labels by the last part of a name, or by its last two parts: run.name is run_name.
_LABELS = re.compile(
    r"(run|exp|experiment|job|project|task)_?name|tags?|notes?|comments?|description|title|"
    r"(wandb|mlflow|comet|neptune|clearml|aim|tensorboard)_\w*(project|name|group|tags?|notes?|"
    r"experiment|entity|description)\w*"
)
# Irrelevant by the last part of a name, or by its last two parts: never compared.
_IRRELEVANT = re.compile(
    r"out|output|outdir|out_?dir|output_?(dir|path|file|folder|root)|(save|log|logs|logging|ckpt|"
    r"checkpoint|checkpoints|work|run|result|results|figure|figures|plot|plots|"
    r"tensorboard|tb|cache|tmp|temp|dump|model_save|default_root|trial|hydra_run)_?(dir|path|"
    r"folder|root)|logdir|workdir|"
    r"port|master_port|main_process_port|main_process_ip|host|hostname|master_addr|rdzv_\w+|"
    r"local_rank|node_rank|global_rank|machine_rank|"
    r"(log|print|logging|save|saving|checkpoint|ckpt|display|report)_?(every\w*|freq\w*|"
    r"interval\w*|steps|n_steps)|"
    r"save_total_limit|verbose|verbosity|quiet|(log|logging)_?level|progress|progress_bar|"
    r"disable_tqdm|"
    r"(num_|n_)?workers|dataloader_num_workers|dataloader_workers|loader_workers|pin_memory|"
    r"prefetch_factor|"
    r"persistent_workers|(num_|n_|omp_num_|mkl_num_|openblas_num_|numexpr_max_)?threads|n_jobs|"
    r"(wandb|mlflow|clearml|tensorboard)\w*|"
    r"(comet|neptune|aim)(_?(ml|ai|logger|logging|log_?\w*|dir|path|repo|url|host|mode|offline|"
    r"online|enabled?|disabled?|run|id|run_id|workspace|api\w*|token|key))?|"
    r"report_to|run_id|experiment_id|"
    r"job_id|run_uuid|logger|"
    r"timestamp|datetime|start_time|date_time|device|gpu_ids?|cuda_device|cuda_visible_devices|"
    r"visible_devices"
)
# Irrelevant, but a few programs compute with them.
_COMPUTABLE = re.compile(
    r"(\w*_)?(workers|threads|port|rank|host|hostname|out|output|outdir|out_?dir|folder|dir|path|"
    r"root|run_id|job_id|experiment_id)|n_jobs|logdir|workdir"
)
# An output whose value is a bare word may be a folder, or say what the output is: softmax.
_BARE_OUTPUTS, _BARE_WORD = ("output", "outputs"), re.compile(r"[\w-]+")
_SEED = re.compile(r"seed|\w+_seed|seed_\w+")
_DEVICE_BATCH = (
    "per_device_train_batch_size",
    "per_device_batch_size",
    "batch_size_per_gpu",
    "micro_batch_size",
    "per_device_batch",
    "device_batch_size",
    "batch_per_gpu",
)
_ACCUMULATION = (
    "gradient_accumulation_steps",
    "grad_accum_steps",
    "accumulate_grad_batches",
    "grad_accum",
    "accum_steps",
    "accumulation_steps",
    "accumulate_steps",
    "accumulate",
)
_WORLD_SIZE = ("world_size", "nproc_per_node", "num_processes")
GLOBAL_BATCH = "global_batch_size"


@dataclass(frozen=True)
class SortedParams:
    """A run's parameters by name: those that count, its seeds, its labels, and the dropped ones."""

    params: Dict[str, Value] = field(default_factory=dict)
    seeds: Dict[str, Value] = field(default_factory=dict)
    labels: Dict[str, Value] = field(default_factory=dict)
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


def sort_params(
    params: Mapping[str, Any],
    *,
    world_size: Optional[int] = None,
    rank: Optional[str] = None,
    defaults: Optional[Mapping[str, Any]] = None,
    used: Collection[str] = (),
    labels: Collection[str] = (),
) -> SortedParams:
    """Divide a run's parameters into those that count, seeds, labels and dropped ones.

    ``params``: name → value, nested or flat, typed or as text. ``world_size``, ``rank``: number of
    processes that train together and the number of this one, if the launcher reveals them.
    ``defaults``: values that the code uses for missing parameters; a parameter with such a value
    is dropped, and a seed is added. ``used``: names of otherwise irrelevant parameters with which
    the code computes or from which it reads: they are labels. ``labels``: names of other labels.
    """
    renamed = _apply_aliases(_plain_params(params))
    default_values = _apply_aliases(_plain_params(defaults or {}))
    sorted_ = SortedParams()
    for name, value in {**_default_seeds(default_values), **renamed}.items():
        kind = "label" if name in labels else _kind_of(name, value, rank, used)
        if kind == "seed":
            if not _is_no_seed(value):
                sorted_.seeds[name] = value
        elif name in default_values and _is_equal(value, default_values[name]):
            sorted_.dropped[name] = value
        else:
            {"label": sorted_.labels, "irrelevant": sorted_.dropped}.get(kind, sorted_.params)[
                name
            ] = value
    _add_default_factors(sorted_, default_values, world_size)
    _merge_batch_size(sorted_, world_size)
    return sorted_


def _is_no_seed(value: Value) -> bool:
    """Return whether a value means no seed: none, or a negative number, which libraries refuse."""
    return value is None or value == "" or (isinstance(value, (int, float)) and value < 0)


def _plain_params(params: Mapping[str, Any]) -> Dict[str, Value]:
    return {plain_name(name): value for name, value in flatten(params).items() if plain_name(name)}


def _kind_of(name: str, value: Value, rank: Optional[str], used: Collection[str]) -> str:
    lower = name.lower()
    last_two = lower.split(".")[-2:]
    keys = (last_two[-1], "_".join(last_two))
    if _SEED.fullmatch(keys[0]):
        return "seed"
    if lower in _LABEL_NAMES or any(_LABELS.fullmatch(key) for key in keys):
        return "label"
    if keys[0] in _BARE_OUTPUTS and isinstance(value, str) and _BARE_WORD.fullmatch(value):
        return "label"
    if any(_IRRELEVANT.fullmatch(key) for key in keys) or (
        lower == "rank" and rank is not None and str(value) == rank
    ):
        is_used = name in used or name.rpartition(".")[2] in used
        return "label" if is_used and _COMPUTABLE.fullmatch(keys[0]) else "irrelevant"
    return "param"


def _default_seeds(defaults: Mapping[str, Value]) -> Dict[str, Value]:
    return {
        name: value
        for name, value in defaults.items()
        if _SEED.fullmatch(name.rpartition(".")[2].lower())
    }


def _is_equal(value: Value, default: Value) -> bool:
    return canonical(value) == canonical(default)


def _add_default_factors(
    sorted_: SortedParams, defaults: Mapping[str, Value], world_size: Optional[int]
) -> None:
    """Add the default factors of the global batch size, if any other factor is known."""
    factors = ("batch_size", *_DEVICE_BATCH, *_ACCUMULATION)
    is_merged = (world_size or 1) > 1 or any(
        name in sorted_.params for name in (*factors, *_WORLD_SIZE)
    )
    if not is_merged or GLOBAL_BATCH in sorted_.params:
        return
    for name in factors:
        if name in defaults and name not in sorted_.params:
            sorted_.dropped.pop(name, None)
            sorted_.params[name] = defaults[name]


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
