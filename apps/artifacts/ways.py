"""In which way a run adapted a model, as far as its parameters tell: by names that many programs use. Pure."""

from collections.abc import Mapping
from typing import Any

from apps.artifacts.choices import Adaptation

UNTOLD = object()  # a value of which only the hash is known, and that it is none of ASKED
_METHOD_WORDS = {
    "lora": Adaptation.ADAPTERS, "qlora": Adaptation.ADAPTERS, "adalora": Adaptation.ADAPTERS, "dora": Adaptation.ADAPTERS,
    "full": Adaptation.ALL,
}  # fmt: skip
# What a hash is compared with.
ASKED = (True, False, None, 0, 1, "all", *_METHOD_WORDS, *(word.upper() for word in _METHOD_WORDS))
# True: the body is frozen and the head learns; false: nothing of it is.
_BODY = frozenset((
    "freeze_backbone", "freeze_encoder", "freeze_body", "freeze_base", "freeze_base_model", "frozen_backbone",
    "frozen_encoder", "frozen_body", "frozen_base", "train_head_only", "head_only", "linear_probe", "linear_probing",
))  # fmt: skip
# True or 'all' as above; a number or a list of layers: some are frozen.
_LAYERS = frozenset(("freeze", "frozen", "freeze_layers", "frozen_layers", "num_frozen_layers", "freeze_n_layers"))
_RANKS = frozenset(("lora_r", "lora_rank", "lora_dim"))
_ADAPTERS = frozenset(("lora", "use_lora", "qlora", "use_qlora"))
_METHODS = frozenset(("peft", "peft_type", "peft_method", "adapter", "adapter_type", "finetuning_type"))
_ALL = frozenset(("full_finetune", "full_finetuning", "full_fine_tuning", "finetune_all"))
# An 'r' is a rank beside one of these, or in a group called so.
_BESIDE = frozenset(("lora_alpha", "use_peft")) | _METHODS | _ADAPTERS
_GROUPS = frozenset(("lora", "peft", "lora_config", "peft_config"))
NAMES = _BODY | _LAYERS | _RANKS | _ADAPTERS | _METHODS | _ALL | _BESIDE | {"r"}
_STRONGEST_FIRST = (Adaptation.ADAPTERS, Adaptation.HEAD, Adaptation.PART, Adaptation.ALL)


def last_part(name: str) -> str:
    """Return by what a parameter is known here: the last part of its name, in small letters."""
    return name.rpartition(".")[2].lower()


def way_of(said: Mapping[str, Any]) -> Adaptation:
    """Return the way that parameters tell (name → value, or UNTOLD); of several the one that leaves most as it was."""
    parts = {last_part(name) for name in said}
    found = {_way(name, value, beside=bool(parts & _BESIDE)) for name, value in said.items()}
    return next((way for way in _STRONGEST_FIRST if way in found), Adaptation.NOT_TOLD)


def _way(name: str, value: Any, *, beside: bool) -> Adaptation | None:
    last, group = last_part(name), last_part(name.rpartition(".")[0])
    if last in _RANKS or (last == "r" and (beside or group in _GROUPS)):
        return Adaptation.ADAPTERS if value is UNTOLD or _is_some(value) else None
    if last in _ADAPTERS and _is_on(value):
        return Adaptation.ADAPTERS
    if last in _ADAPTERS | _METHODS and isinstance(value, str):
        return _METHOD_WORDS.get(value.lower())
    if last in _ALL and _is_on(value):
        return Adaptation.ALL
    return _frozen(last, value) if last in _BODY | _LAYERS else None


def _frozen(last: str, value: Any) -> Adaptation | None:
    if value is True or value == "all" or (last in _BODY and _is_on(value)):
        return Adaptation.HEAD
    if value == 0 or value == []:  # and false
        return Adaptation.ALL
    return Adaptation.PART if last in _LAYERS and (_is_some(value) or isinstance(value, list)) else None


def _is_on(value: Any) -> bool:
    return bool(value == 1)  # and true


def _is_some(value: Any) -> bool:
    """Return whether a value is a number of layers, or a rank."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 1
