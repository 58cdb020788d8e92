"""Folders that are one artifact, known by the names in them; their cards are read if they are small."""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from labcarbon_collect.scan.description import CHECKPOINT, DATASET, MODEL, About, by_name, one_line, storable
from labcarbon_collect.scan.formats import NUMBERED_TAR
from labcarbon_collect.scan.local_files import Listing

MAX_CARD_BYTES = 1 << 20
Small = Callable[[bytes], bytes]  # name of a file in the folder → its content, at most MAX_CARD_BYTES; else empty
_HUB_WEIGHTS = re.compile(
    r"^(?:model|pytorch_model|tf_model|flax_model|adapter_model|diffusion_pytorch_model)\b.*\.(?:safetensors|bin|h5|msgpack)$"
)
_TRAINING = ("trainer_state.json", "optimizer.pt", "optimizer.bin", "scheduler.pt", "training_args.bin")
_SAVED_INSIDE = re.compile(r"^(?:checkpoint|epoch|step|iter)[-_=]?\d+$")
_DEEPSPEED = re.compile(r"model_states\.pt$")
_SIDE = re.compile(
    r"^(?:_SUCCESS|_metadata|_common_metadata|README.*|LICENSE.*|.*\.(?:md|txt|json|yaml|yml|crc|idx|lock))$", re.IGNORECASE
)
_TENSORFLOW_PART = re.compile(r"^(?:checkpoint|(.+)\.(?:index|meta|data-\d{5}-of-\d{5}))$")
_FRONT_KEYS = ("license", "base_model", "datasets", "pipeline_tag")


def folder_about(name: str, listing: Listing, small: Small) -> Optional[About]:
    """What a folder is as a whole; None where it is a folder of several things. ``small`` reads a file in it."""
    names = {each[0] for each in listing.files}.union(listing.links)
    if b"saved_model.pb" in names or b"saved_model.pbtxt" in names:
        return About(MODEL, "savedmodel")
    if names & {b"_CHECKPOINT_METADATA", b"_METADATA", b"manifest.ocdbt"}:
        return About(CHECKPOINT, "orbax", by_name(name)[1])
    endings = {each.rpartition(b".")[2] for each in names}
    if b"distcp" in endings:
        return About(CHECKPOINT, "torch_dcp", by_name(name)[1])
    if b"pt" in endings and any(_DEEPSPEED.search(text) for text in _texts(names)):
        return About(CHECKPOINT, "deepspeed", by_name(name)[1])
    return _hub_dataset(names, listing, small) or _hub_model(name, names, listing, small) or _alike(names, endings, listing)


def _texts(names: Iterable[bytes]) -> Iterator[str]:
    return (name.decode("utf-8", "replace") for name in names)


def numbered_tars(listing: Listing) -> frozenset[bytes]:
    """Tar files of which several are numbered alike: shards of one dataset."""
    runs: Dict[Tuple[str, int], List[bytes]] = {}
    for each in listing.files:
        found = NUMBERED_TAR.match(each[0].decode("utf-8", "replace")) if each[0].endswith(b".tar") else None
        if found:
            runs.setdefault((found.group(1), len(found.group(2))), []).append(each[0])
    return frozenset(name for run in runs.values() if len(run) > 1 for name in run)


def _hub_model(name: str, names: set[bytes], listing: Listing, small: Small) -> Optional[About]:
    """A folder as ``save_pretrained`` writes it. One that holds folders of steps is a training's, and they stand alone."""
    if any(_SAVED_INSIDE.match(folder.decode("utf-8", "replace")) for folder in listing.folders):
        return None
    card = next((each for each in (b"model_index.json", b"config.json", b"adapter_config.json") if each in names), None)
    if card is None or not (card == b"model_index.json" or any(_HUB_WEIGHTS.match(text) for text in _texts(names))):
        return None
    config = _json(small(card))
    if config is None:
        return None
    kind, counted = by_name(name)
    if any(each.encode() in names for each in _TRAINING):
        kind = CHECKPOINT
    front = _front_matter(small(b"README.md")) if b"README.md" in names else {}
    licence = front.pop("license", "")
    facts = storable([*counted.items(), *_config_facts(config), *front.items()])
    return About(kind, "huggingface", facts, one_line(licence, 100))


def _hub_dataset(names: set[bytes], listing: Listing, small: Small) -> Optional[About]:
    """A folder as ``Dataset.save_to_disk`` writes it."""
    if not names & {b"dataset_info.json", b"dataset_dict.json", b"state.json"}:
        return None
    if not listing.folders and not any(name.endswith((b".arrow", b".parquet")) for name in names):
        return None
    info = _json(small(b"dataset_info.json")) if b"dataset_info.json" in names else {}
    if info is None or (not info and not _json(small(min(names & {b"dataset_dict.json", b"state.json"}, default=b"")))):
        return None
    facts = [("dataset", info.get("dataset_name")), ("config", info.get("config_name")), ("rows", _rows(info.get("splits")))]
    return About(DATASET, "huggingface", storable(facts), one_line(str(info.get("license") or ""), 100))


def _alike(names: set[bytes], endings: set[bytes], listing: Listing) -> Optional[About]:
    """A folder of nothing but Parquet files, numbered tars, or one TensorFlow checkpoint, and small things beside them."""
    if listing.folders or not endings & {b"parquet", b"tar", b"index"}:
        return None
    rest = [text for text in _texts(names) if not _SIDE.match(text)]
    if len(rest) > 1 and all(text.endswith(".parquet") for text in rest):
        return About(DATASET, "parquet")
    if len(rest) > 1 and len(numbered_tars(listing)) == len(rest):
        return About(DATASET, "webdataset")
    parts = [_TENSORFLOW_PART.match(text) for text in rest]
    prefixes = {part.group(1) for part in parts if part and part.group(1)}
    if rest and all(parts) and len(prefixes) == 1 and any(text.endswith(".index") for text in rest):
        return About(CHECKPOINT, "tensorflow", by_name(str(min(prefixes)))[1])
    return None


def _rows(splits: Any) -> Optional[int]:
    """How many rows all splits hold together; None where that is not told of each."""
    told = list(splits.values()) if isinstance(splits, dict) else []
    counts = [split.get("num_examples") for split in told if isinstance(split, dict)]
    whole = [count for count in counts if isinstance(count, int)]
    return sum(whole) if told and len(whole) == len(told) else None


def _config_facts(config: Dict[str, Any]) -> List[Tuple[str, Any]]:
    architectures = config.get("architectures")
    first = architectures[0] if isinstance(architectures, list) and architectures else config.get("_class_name")
    facts = [("architecture", first), ("model_type", config.get("model_type")), ("peft_type", config.get("peft_type"))]
    return [*facts, ("base_model", config.get("base_model_name_or_path"))]


def _json(content: bytes) -> Optional[Dict[str, Any]]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _front_matter(content: bytes) -> Dict[str, str]:
    """Plain values and lists of the lines between the first two ``---`` of a card; anything more than that is left."""
    lines = content.decode("utf-8", "replace").splitlines()
    if not lines or lines[0].strip() != "---":
        return {}
    found: Dict[str, List[str]] = {}
    key = ""
    for line in lines[1:200]:
        if line.strip() == "---":
            break
        begins = re.match(r"^([\w-]+):\s*(.*)$", line)
        if begins:
            key = begins.group(1)
            found[key] = [part for part in re.split(r"[\[\],]", begins.group(2)) if part.strip()]
        elif key and re.match(r"^\s*-\s+\S", line):
            found[key].append(line.split("-", 1)[1])
    return {name: ", ".join(part.strip().strip("'\"") for part in found[name]) for name in _FRONT_KEYS if found.get(name)}
