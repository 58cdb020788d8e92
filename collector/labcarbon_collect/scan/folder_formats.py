"""Recognises folders that are one artifact by the names of their files. Small metadata files are
read.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from labcarbon_collect.scan.description import (
    CHECKPOINT,
    DATASET,
    MODEL,
    Description,
    clean_facts,
    kind_and_step,
    one_line,
)
from labcarbon_collect.scan.formats import NUMBERED_TAR, TFRECORD_NAME
from labcarbon_collect.scan.local_files import Listing

MAX_CARD_BYTES = 1 << 20
# name of a file in the folder → its content; empty if it exceeds MAX_CARD_BYTES
CardReader = Callable[[bytes], bytes]
# name of a subfolder → its content; None if it cannot be listed
ChildLister = Callable[[bytes], Optional[Listing]]
_MIN_IMAGES = 20
_IMAGE = re.compile(r"\.(?:jpe?g|png|webp|bmp|gif|tiff?|p[bgp]m)$", re.IGNORECASE)
_IMAGE_TABLE = re.compile(r"\.(?:csv|tsv|jsonl)$", re.IGNORECASE)
_SHARD = re.compile(r"^(.+)-(\d{5})-of-(\d{5})\.(safetensors|bin|gguf)$")
_SHARD_FORMATS = {"safetensors": "safetensors", "bin": "torch", "gguf": "gguf"}
_TOKENIZER = re.compile(r"^(?:tokenizer|spiece|sentencepiece.*|vocab|merges)\.(?:model|bpe)$")
_HUB_REVISION = re.compile(r"/(model|dataset)s--([^/]+)/snapshots/[^/]+$")
_HUB_WEIGHTS = re.compile(
    r"^(?:model|pytorch_model|tf_model|flax_model|adapter_model|diffusion_pytorch_model)\b.*\.(?"
    r":safetensors|bin|h5|msgpack)$"
)
_TRAINING_FILES = (
    "trainer_state.json",
    "optimizer.pt",
    "optimizer.bin",
    "scheduler.pt",
    "training_args.bin",
)
_STEP_FOLDER = re.compile(r"^(?:checkpoint|epoch|step|iter)[-_=]?\d+$")
_DEEPSPEED = re.compile(r"model_states\.pt$")
_SIDE_FILE = re.compile(
    (
        r"^(?:_SUCCESS|_metadata|_common_metadata|README.*|LICENSE.*|.*\.(?:md|txt|json|yaml|yml|"
        r"crc|idx|lock))$"
    ),
    re.IGNORECASE,
)
_TENSORFLOW_PART = re.compile(r"^(?:checkpoint|(.+)\.(?:index|meta|data-\d{5}-of-\d{5}))$")
_FRONT_MATTER_KEYS = ("license", "base_model", "datasets", "pipeline_tag")


def describe_folder(
    name: str, listing: Listing, read_card: CardReader, list_child: ChildLister
) -> Optional[Description]:
    """Describe a folder that is one artifact. Returns None for a folder of several files.
    ``read_card`` reads a file of the folder, ``list_child`` lists a subfolder.
    """
    names = {entry[0] for entry in listing.files}.union(listing.links)
    if b"saved_model.pb" in names or b"saved_model.pbtxt" in names:
        return Description(MODEL, "savedmodel")
    if names & {b"_CHECKPOINT_METADATA", b"_METADATA", b"manifest.ocdbt"}:
        return Description(CHECKPOINT, "orbax", kind_and_step(name)[1])
    endings = {entry.rpartition(b".")[2] for entry in names}
    if b"zarr.json" in names or listing.markers:
        return Description(DATASET, "zarr")
    if b"distcp" in endings:
        return Description(CHECKPOINT, "torch_dcp", kind_and_step(name)[1])
    if b"pt" in endings and any(_DEEPSPEED.search(text) for text in _decode_names(names)):
        return Description(CHECKPOINT, "deepspeed", kind_and_step(name)[1])
    return (
        _hub_dataset(names, listing, read_card)
        or _hub_model(name, names, listing, read_card)
        or _uniform_folder(names, endings, listing)
        or _model_in_shards(name, names, listing)
        or _image_folder(names, listing, list_child)
    )


def describe_hub_revision(
    path: str, listing: Listing, description: Optional[Description]
) -> Optional[Description]:
    """Describe a folder with its repository if it is a revision in a cache of the Hugging Face
    hub. Each revision is one artifact, whatever it contains.
    """
    match = _HUB_REVISION.search(path)
    if match is None or not (listing.files or listing.links or listing.folders):
        return description
    kind, repository = match.groups()
    described = description or Description(MODEL if kind == "model" else DATASET, "huggingface")
    facts = clean_facts([*described.facts.items(), ("repository", repository.replace("--", "/"))])
    return replace(described, facts=facts)


def _decode_names(names: Iterable[bytes]) -> Iterator[str]:
    return (name.decode("utf-8", "replace") for name in names)


def numbered_tars(listing: Listing) -> frozenset[bytes]:
    """Return tar files that belong to a numbered series: shards of one dataset."""
    series: Dict[Tuple[str, int], List[bytes]] = {}
    for stamp in listing.files:
        match = (
            NUMBERED_TAR.match(stamp[0].decode("utf-8", "replace"))
            if stamp[0].endswith(b".tar")
            else None
        )
        if match:
            series.setdefault((match.group(1), len(match.group(2))), []).append(stamp[0])
    return frozenset(name for shards in series.values() if len(shards) > 1 for name in shards)


def _hub_model(
    name: str, names: set[bytes], listing: Listing, read_card: CardReader
) -> Optional[Description]:
    """Describe a folder written by ``save_pretrained``. A folder with step folders is a training
    output; each step folder is an artifact of its own.
    """
    if any(_STEP_FOLDER.match(folder.decode("utf-8", "replace")) for folder in listing.folders):
        return None
    card = next(
        (
            candidate
            for candidate in (b"model_index.json", b"config.json", b"adapter_config.json")
            if candidate in names
        ),
        None,
    )
    if card is None or not (
        card == b"model_index.json"
        or any(_HUB_WEIGHTS.match(text) for text in _decode_names(names))
    ):
        return None
    config = _parse_object(read_card(card))
    if config is None:
        return None
    kind, step_facts = kind_and_step(name)
    if any(candidate.encode() in names for candidate in _TRAINING_FILES):
        kind = CHECKPOINT
    card_fields = _parse_front_matter(read_card(b"README.md")) if b"README.md" in names else {}
    licence = card_fields.pop("license", "")
    facts = clean_facts([*step_facts.items(), *_config_facts(config), *card_fields.items()])
    return Description(kind, "huggingface", facts, one_line(licence, 100))


def _hub_dataset(
    names: set[bytes], listing: Listing, read_card: CardReader
) -> Optional[Description]:
    """Describe a folder written by ``Dataset.save_to_disk``."""
    if not names & {b"dataset_info.json", b"dataset_dict.json", b"state.json"}:
        return None
    if not listing.folders and not any(name.endswith((b".arrow", b".parquet")) for name in names):
        return None
    info = _parse_object(read_card(b"dataset_info.json")) if b"dataset_info.json" in names else {}
    if info is None or (
        not info
        and not _parse_object(
            read_card(min(names & {b"dataset_dict.json", b"state.json"}, default=b""))
        )
    ):
        return None
    facts = [
        ("dataset", info.get("dataset_name")),
        ("config", info.get("config_name")),
        ("rows", _row_count(info.get("splits"))),
    ]
    return Description(
        DATASET, "huggingface", clean_facts(facts), one_line(str(info.get("license") or ""), 100)
    )


def _uniform_folder(
    names: set[bytes], endings: set[bytes], listing: Listing
) -> Optional[Description]:
    """Describe a folder of only Parquet files, numbered tars or one TensorFlow checkpoint. Small
    files beside them are allowed.
    """
    if listing.folders:
        return None
    if any(TFRECORD_NAME.search(text) for text in _decode_names(names)):
        others = [text for text in _decode_names(names) if not _SIDE_FILE.match(text)]
        is_dataset = len(others) > 1 and all(TFRECORD_NAME.search(text) for text in others)
        return Description(DATASET, "tfrecord") if is_dataset else None
    if not endings & {b"parquet", b"tar", b"index"}:
        return None
    others = [text for text in _decode_names(names) if not _SIDE_FILE.match(text)]
    if len(others) > 1 and all(text.endswith(".parquet") for text in others):
        return Description(DATASET, "parquet")
    if len(others) > 1 and len(numbered_tars(listing)) == len(others):
        return Description(DATASET, "webdataset")
    parts = [_TENSORFLOW_PART.match(text) for text in others]
    prefixes = {part.group(1) for part in parts if part and part.group(1)}
    if (
        others
        and all(parts)
        and len(prefixes) == 1
        and any(text.endswith(".index") for text in others)
    ):
        return Description(CHECKPOINT, "tensorflow", kind_and_step(str(min(prefixes)))[1])
    return None


def _model_in_shards(name: str, names: set[bytes], listing: Listing) -> Optional[Description]:
    """Describe a folder of the shards of one model without a configuration. Small files and a
    tokenizer beside them are allowed.
    """
    others = [
        text
        for text in _decode_names(names)
        if not _SIDE_FILE.match(text) and not _TOKENIZER.match(text)
    ]
    shards = [_SHARD.match(text) for text in others]
    series = {(shard.group(1), shard.group(3), shard.group(4)) for shard in shards if shard}
    if listing.folders or not all(shards) or len(series) != 1:
        return None
    ((_, total, ending),) = series
    kind, facts = kind_and_step(name)
    facts["shards"] = len(shards)
    if int(total) != len(shards):
        facts["shards_of"] = int(total)
    return Description(kind, _SHARD_FORMATS[ending], facts)


def _image_folder(
    names: set[bytes], listing: Listing, list_child: ChildLister
) -> Optional[Description]:
    """Describe a folder of images, or of one subfolder of images per class. Small files and
    tables beside them are allowed.
    """
    others = [
        text
        for text in _decode_names(names)
        if not _SIDE_FILE.match(text) and not _IMAGE_TABLE.search(text)
    ]
    if not all(_IMAGE.search(text) for text in others):
        return None
    facts: Dict[str, int] = {}
    images = len(others)
    if listing.folders:
        if others or len(listing.folders) < 2:
            return None
        for folder in listing.folders:
            child = list_child(folder)
            if child is None or child.folders or not (child.files or child.links):
                return None
            pictures = [stamp[0] for stamp in child.files] + child.links
            if not all(_IMAGE.search(text) for text in _decode_names(pictures)):
                return None
            images += len(pictures)
        facts["classes"] = len(listing.folders)
    facts["images"] = images
    return Description(DATASET, "images", facts) if images >= _MIN_IMAGES else None


def _row_count(splits: Any) -> Optional[int]:
    """Return the number of rows of all splits. None if one split lacks its number."""
    split_infos = list(splits.values()) if isinstance(splits, dict) else []
    counts = [split.get("num_examples") for split in split_infos if isinstance(split, dict)]
    known_counts = [count for count in counts if isinstance(count, int)]
    return sum(known_counts) if split_infos and len(known_counts) == len(split_infos) else None


def _config_facts(config: Dict[str, Any]) -> List[Tuple[str, Any]]:
    architectures = config.get("architectures")
    first = (
        architectures[0]
        if isinstance(architectures, list) and architectures
        else config.get("_class_name")
    )
    facts = [
        ("architecture", first),
        ("model_type", config.get("model_type")),
        ("peft_type", config.get("peft_type")),
    ]
    return [*facts, ("base_model", config.get("base_model_name_or_path"))]


def _parse_object(content: bytes) -> Optional[Dict[str, Any]]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _parse_front_matter(content: bytes) -> Dict[str, str]:
    """Return plain values and lists between the first two ``---`` lines of a card. Ignores other
    YAML.
    """
    lines = content.decode("utf-8", "replace").splitlines()
    if not lines or lines[0].strip() != "---":
        return {}
    values: Dict[str, List[str]] = {}
    key = ""
    for line in lines[1:200]:
        if line.strip() == "---":
            break
        match = re.match(r"^([\w-]+):\s*(.*)$", line)
        if match:
            key = match.group(1)
            values[key] = [part for part in re.split(r"[\[\],]", match.group(2)) if part.strip()]
        elif key and re.match(r"^\s*-\s+\S", line):
            values[key].append(line.split("-", 1)[1])
    return {
        name: ", ".join(part.strip().strip("'\"") for part in values[name])
        for name in _FRONT_MATTER_KEYS
        if values.get(name)
    }
