"""What a file or folder is known as: a table of tiny files of real formats. None of them is
opened by what it is for.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.files.digest_cache import DigestCache
from labcarbon_collect.files.manifests import manifest
from labcarbon_collect.files.read_limits import Budget
from labcarbon_collect.fingerprint.digests import content_hashes

from tests.collector.scan.support import (
    KERAS_H5,
    LEGACY_TORCH,
    NPY,
    ONNX,
    PARQUET,
    SSTABLE,
    Disk,
    gguf,
    safetensors,
    tar,
    tfrecord,
    torch,
    zipped,
)
from tests.fakes.labcarbon_server import FakeServer

KERAS = zipped("metadata.json", "config.json", "model.weights.h5")
CONFIG = json.dumps(
    {"architectures": ["BertModel"], "model_type": "bert", "_name_or_path": "/home/ana/x"}
).encode()
CARD = (
    b"---\nlicense: mit\nbase_model:\n- org/base\ndatasets: [cats, dogs]\n---\n# A model\n"
    b"license: no\n"
)
INFO = json.dumps(
    {"dataset_name": "cats", "splits": {"train": {"num_examples": 7}}, "license": "cc0"}
).encode()
FILES = [
    ("best.pt", torch(), ("model", "torch", {})),
    ("model_epoch3.pth", torch(), ("checkpoint", "torch", {"epoch": 3})),
    ("jit.pt", zipped("jit/version", "jit/data.pkl"), ("model", "torch", {})),
    ("old.bin", LEGACY_TORCH + b"rest", ("model", "torch", {})),
    ("optimizer.pt", torch(), ("checkpoint", "torch", {})),
    ("epoch=2-step=300.ckpt", torch(), ("checkpoint", "lightning", {"epoch": 2, "step": 300})),
    ("last.ckpt", torch(), ("checkpoint", "torch", {})),
    (
        "a.safetensors",
        safetensors(license="mit"),
        (
            "model",
            "safetensors",
            {
                "tensors": 2,
                "parameters": 10,
                "format": "pt",
                "dtypes": "F32 1, F16 1",
                "license": "mit",
            },
        ),
    ),
    ("blob", safetensors(), ("model", "safetensors", {"tensors": 2})),
    ("m.keras", KERAS, ("model", "keras", {})),
    ("m.h5", KERAS_H5, ("model", "keras", {})),
    ("m.weights.h5", b"\x89HDF\r\n\x1a\n" + bytes(100), ("model", "keras", {})),
    ("table.h5", b"\x89HDF\r\n\x1a\n" + bytes(100), (None, "hdf5", {})),
    ("m.onnx", ONNX, ("model", "onnx", {"ir_version": 8, "producer": "pytorch"})),
    ("m.gguf", gguf(), ("model", "gguf", {"tensors": 3, "architecture": "llama"})),
    ("t.parquet", PARQUET, ("dataset", "parquet", {})),
    ("x.npy", NPY, ("dataset", "npy", {})),
    ("x.npz", zipped("a.npy", "b.npy"), ("dataset", "npz", {})),
    ("x.arrow", b"ARROW1\0\0" + bytes(8), ("dataset", "arrow", {})),
    ("events.out.tfevents.1.host", (24).to_bytes(8, "little") + bytes(40), ("log", "tfevents", {})),
    ("train.tfrecord", tfrecord(), ("dataset", "tfrecord", {})),
    ("cats-train.tfrecord-00001-of-00010", tfrecord(2, 10), ("dataset", "tfrecord", {})),
    ("cats.tfrecords.gz", b"\x1f\x8b\x08" + bytes(20), ("dataset", "tfrecord", {})),
    ("ckpt-5.data-00000-of-00001", b"weights", ("checkpoint", "tensorflow", {})),
]
UNRECOGNISED = [
    ("photo.png", b"\x89PNG"), ("train.py", b"import os"), ("a.zip", zipped("a.txt")),
    ("model.pkl", b"\x80\x04cos\nsystem"), ("single-000.tar", tar()), ("half.npy", b"\x93NUM"),
    ("text.tfrecord", b"not a record of TensorFlow"), ("empty.pt", b""), ("eight", b"12345678{"),
    ("x.index", b"a" * 60),
]  # fmt: skip
FOLDERS: list[tuple[str, dict[str, bytes], tuple[str, str, dict[str, Any]]]] = [
    (
        "bert",
        {
            "config.json": CONFIG,
            "model.safetensors": safetensors(),
            "README.md": CARD,
            "vocab.txt": b"a",
        },
        (
            "model",
            "huggingface",
            {
                "architecture": "BertModel",
                "model_type": "bert",
                "base_model": "org/base",
                "datasets": "cats, dogs",
            },
        ),
    ),
    (
        "checkpoint-500",
        {
            "config.json": CONFIG,
            "pytorch_model-00001-of-00002.bin": torch(),
            "optimizer.pt": torch(),
            "trainer_state.json": b"{}",
        },
        ("checkpoint", "huggingface", {}),
    ),
    (
        "lora",
        {
            "adapter_config.json": b'{"peft_type": "LORA", "base_model_name_or_path": "org/b"}',
            "adapter_model.safetensors": safetensors(),
        },
        ("model", "huggingface", {"peft_type": "LORA", "base_model": "org/b"}),
    ),
    (
        "set",
        {"dataset_info.json": INFO, "state.json": b"{}", "data-0.arrow": b"ARROW1"},
        ("dataset", "huggingface", {"dataset": "cats", "rows": 7}),
    ),
    (
        "tf",
        {"saved_model.pb": b"\x08\x01", "variables/variables.index": SSTABLE},
        ("model", "savedmodel", {}),
    ),
    (
        "100",
        {"_CHECKPOINT_METADATA": b"{}", "default/manifest.ocdbt": b"x"},
        ("checkpoint", "orbax", {}),
    ),
    ("orbax2", {"manifest.ocdbt": b"x", "d/1": b"x"}, ("checkpoint", "orbax", {})),
    (
        "global_step7",
        {"mp_rank_00_model_states.pt": torch(), "zero_optim_states.pt": torch()},
        ("checkpoint", "deepspeed", {"step": 7}),
    ),
    ("fsdp", {".metadata": b"x", "__0_0.distcp": b"x"}, ("checkpoint", "torch_dcp", {})),
    (
        "table",
        {"a.parquet": PARQUET, "b.parquet": PARQUET, "_SUCCESS": b""},
        ("dataset", "parquet", {}),
    ),
    (
        "web",
        {"cats-0000.tar": tar(), "cats-0001.tar": tar(), "sizes.json": b"{}"},
        ("dataset", "webdataset", {}),
    ),
    (
        "cats_tfds",
        {
            "dataset_info.json": INFO,
            "features.json": b"{}",
            "cats-train.tfrecord-00000-of-00002": tfrecord(),
            "cats-train.tfrecord-00001-of-00002": tfrecord(2),
        },
        ("dataset", "tfrecord", {}),
    ),
    (
        "climate.zarr",
        {"zarr.json": b"{}", "t2m/zarr.json": b"{}", "t2m/c/0/0": b"chunk"},
        ("dataset", "zarr", {}),
    ),
    ("store", {".zgroup": b"{}", "t2m/.zarray": b"{}", "t2m/0.0": b"c"}, ("dataset", "zarr", {})),
    (
        "by_class",
        {f"{name}/{i}.JPEG": b"\xff\xd8" for name in ("cat", "dog") for i in range(10)},
        ("dataset", "images", {"classes": 2, "images": 20}),
    ),
    (
        "photos",
        {**{f"{i}.png": b"\x89PNG" for i in range(20)}, "labels.csv": b"a"},
        ("dataset", "images", {"images": 20}),
    ),
    (
        "shards",
        {
            "model-00001-of-00002.safetensors": safetensors(),
            "model-00002-of-00002.safetensors": safetensors(2),
            "model.safetensors.index.json": b"{}",
        },
        ("model", "safetensors", {"shards": 2}),
    ),
    (
        "half",
        {
            "pytorch_model-00001-of-00005.bin": torch(),
            "pytorch_model-00003-of-00005.bin": torch(3),
            "tokenizer.model": b"x",
        },
        ("model", "torch", {"shards": 2, "shards_of": 5}),
    ),
    (
        "llama-step-900",
        {f"llama-{i:05}-of-00003.gguf": gguf(i) for i in (1, 2, 3)},
        ("checkpoint", "gguf", {"shards": 3}),
    ),
    (
        "tfck",
        {"checkpoint": b"x", "ckpt-5.index": SSTABLE, "ckpt-5.data-00000-of-00001": b"w"},
        ("checkpoint", "tensorflow", {}),
    ),
]


def told(server: FakeServer, name: str) -> dict[str, Any]:
    (row,) = [row for row in server.artifacts.values() if row["name"] == name]
    return row


def test_files_are_registered_with_kind_and_format(
    disk: Disk, here: Any, server: FakeServer
) -> None:
    for number, (name, content, _) in enumerate(FILES):
        disk.put(f"f{number}/{name}", content)
    for name, content in UNRECOGNISED:
        disk.put(f"none/{name}", content)
    code, out, _ = here()
    assert (code, f"{len(FILES):,} artifacts" in out) == (0, True), out
    assert set(server.present()) == {
        str(disk.root / f"f{number}" / row[0]) for number, row in enumerate(FILES)
    }
    row = told(server, "m.gguf")
    assert (row["kind"], row["format"], row["facts"]) == (
        "model",
        "gguf",
        {"tensors": 3, "architecture": "llama"},
    )


@pytest.mark.parametrize(("name", "content", "expected"), FILES, ids=[row[0] for row in FILES])
def test_kind_format_and_facts(
    name: str, content: bytes, expected: tuple[str | None, str, dict[str, Any]]
) -> None:
    from labcarbon_collect.scan.formats import recognise_file

    found = recognise_file(
        name, len(content), content[:4096], lambda offset, length: content[offset : offset + length]
    )
    kind, form, facts = expected
    assert found is not None
    assert (found.kind, found.format) == (kind or "other", form)
    assert (
        facts.items()
        <= {**found.facts, **({"license": found.licence} if found.licence else {})}.items()
    )


@pytest.mark.parametrize(("name", "content"), UNRECOGNISED, ids=[row[0] for row in UNRECOGNISED])
def test_what_is_of_no_format(name: str, content: bytes) -> None:
    from labcarbon_collect.scan.formats import recognise_file

    assert (
        recognise_file(
            name, len(content), content[:4096], lambda at, length: content[at : at + length]
        )
        is None
    )


def test_folders_are_one_artifact_with_the_digest_of_fingerprints(
    disk: Disk, here: Any, server: FakeServer
) -> None:
    for name, files, _ in FOLDERS:
        for each, content in files.items():
            disk.put(f"{name}/{each}", content)
    code, out, _ = here()
    assert (code, f"{len(FOLDERS)} artifacts" in out) == (0, True), out
    for name, _, (kind, form, facts) in FOLDERS:
        row = told(server, name)
        assert (row["kind"], row["format"], row["form"]) == (kind, form, "folder"), name
        assert facts.items() <= row.get("facts", {}).items(), name
        listed = manifest("x", str(disk.root / name), Budget(5))
        ((_, digest),) = content_hashes([listed], DigestCache(None), on_hashed=lambda size: None)
        assert (row["digest"], row["bytes"], row["files"]) == (
            digest,
            listed.size,
            len(listed.files),
        )
    assert told(server, "bert")["licence"] == "mit"
    assert "/home/ana" not in json.dumps([request.body for request in server.requests])


def test_the_payload_hash_of_safetensors_excludes_the_header(
    disk: Disk, here: Any, server: FakeServer
) -> None:
    disk.put("a.safetensors", safetensors())
    disk.put("b.safetensors", safetensors(note="other"))
    assert here()[0] == 0
    first, second = (told(server, name) for name in ("a.safetensors", "b.safetensors"))
    assert first["digest"] == hashlib.sha256(safetensors()).hexdigest() != second["digest"]
    assert first["payload"] == second["payload"] == hashlib.sha256(bytes([1]) * 32).hexdigest()


def test_a_training_with_checkpoints_inside_is_several(
    disk: Disk, here: Any, server: FakeServer
) -> None:
    for folder in ("out", "out/checkpoint-500"):
        disk.put(f"{folder}/config.json", CONFIG)
        disk.put(f"{folder}/model.safetensors", safetensors(len(folder)))
    assert here()[0] == 0
    assert set(server.present()) == {
        str(disk.root / "out/model.safetensors"),
        str(disk.root / "out/checkpoint-500"),
    }


def test_a_run_of_tars_beside_others_and_all(disk: Disk, here: Any, server: FakeServer) -> None:
    for name, content in (
        ("s-000.tar", tar()),
        ("s-001.tar", tar() + b"x"),
        ("x.npy", NPY),
        ("notes.log", b"hello"),
    ):
        disk.put(name, content)
    assert here()[0] == 0
    assert {Path(path).name for path in server.present()} == {"s-000.tar", "s-001.tar", "x.npy"}
    assert here("--include-unknown")[0] == 0
    assert told(server, "notes.log")["kind"] == "log"


def test_two_models_in_shards_are_not_one(disk: Disk, here: Any, server: FakeServer) -> None:
    for name in ("a", "b"):
        for part in (1, 2):
            disk.put(f"m/{name}-0000{part}-of-00002.safetensors", safetensors(part + ord(name)))
    assert here()[0] == 0
    assert len(server.present()) == 4


@pytest.mark.parametrize(
    "files",
    [
        [f"{i}.png" for i in range(19)],  # plots
        [f"{i}.png" for i in range(40)] + ["plot.py"],
        [f"a/{i}.png" for i in range(40)],  # one folder of pictures, beside nothing
        [f"a/{i}.png" for i in range(40)] + ["b/1.png", "b/1.npy"],
    ],
    ids=["few", "code", "one", "other"],
)
def test_pictures_beside_other_work_are_no_image_folder(files: list[str], tmp_path: Path) -> None:
    from labcarbon_collect.scan.folder_formats import describe_folder
    from labcarbon_collect.scan.local_files import LocalTree

    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"\x89PNG")
    tree, root = LocalTree([b"/"]), bytes(tmp_path)
    found = describe_folder(
        "work",
        tree.list_folder(root),
        lambda name: b"",
        lambda name: tree.list_folder(root + b"/" + name),
    )
    assert found is None


def test_what_is_scanned_may_itself_be_one_artifact(
    disk: Disk, here: Any, server: FakeServer
) -> None:
    disk.put("config.json", CONFIG)
    disk.put("model.safetensors", safetensors())
    assert here()[0] == 0
    assert list(server.present()) == [str(disk.root)]
    assert "1 artifact," in here()[1]
