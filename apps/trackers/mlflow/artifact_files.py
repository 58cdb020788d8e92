"""Files of MLflow runs: detection of artifacts, and their paths at MLflow's file proxy. Pure.

Lists of a server are not trusted. A path outside the requested folder is ignored.
"""

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from apps.artifacts.choices import Kind
from apps.core.text import is_unstorable
from apps.core.url_allowlist import Address
from apps.trackers.mlflow.parsing import whole

PROXY = "/api/2.0/mlflow-artifacts/artifacts"  # file proxy of MLflow
MAX_PATH_CHARS = 1000
MODEL_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")
_MODEL = re.compile(
    r"\.(pt|pth|ckpt|bin|safetensors|keras|h5|hdf5|onnx|gguf|msgpack|tflite|pb|pkl|pickle|joblib|"
    r"cbm|ubj|xgb|lgb|model)$"
)
_DATASET = re.compile(r"\.(parquet|npy|npz|arrow|tar)$")
_TENSORFLOW = re.compile(r"(\.data-\d{5}-of-\d{5}|\.index)$")
# Same rule as in the collector's scan: a checkpoint is a model file with one of these names.
_CHECKPOINT_NAME = re.compile(
    r"(?:^|[^a-z])(?:epochs?|steps?|iter|iteration|ckpt|checkpoint|global_?step|optim|optimizer|"
    r"scheduler|last)(?:[^a-z]|$)"
)
# Files that MLflow writes beside a model.
_SIDE = frozenset({"input_example.npy", "serving_input_example.json"})


@dataclass(frozen=True)
class FileEntry:
    """An entry of a folder. ``bytes`` None: unknown size."""

    path: str
    is_folder: bool
    bytes: int | None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def entries(rows: list[dict[str, Any]], folder: str) -> tuple[list[FileEntry], int]:
    """Return the entries of ``folder`` by path, and the number of rows that belong elsewhere."""
    by_path: dict[str, FileEntry] = {}
    wrong = 0
    for row in rows:
        path = row.get("path")
        if not isinstance(path, str) or not _is_direct_child(path, folder) or path in by_path:
            wrong += 1
            continue
        size = whole(row.get("file_size"))
        by_path[path] = FileEntry(
            path, bool(row.get("is_dir")), size if size is not None and size >= 0 else None
        )
    return [by_path[path] for path in sorted(by_path)], wrong


def _is_direct_child(path: str, folder: str) -> bool:
    above, _, name = path.rpartition("/")
    fits = above == folder and name not in ("", ".", "..") and len(path) <= MAX_PATH_CHARS
    return fits and not is_unstorable(path) and path.isprintable() and "\\" not in path


def kind_of(path: str) -> Kind | None:
    """Return the kind of a file by its name, or None for other files (images, tables, settings,
    text).
    """
    name = path.rpartition("/")[2].lower()
    if name in _SIDE:
        return None
    if "events.out.tfevents." in name:
        return Kind.LOG
    if _DATASET.search(name):
        return Kind.DATASET
    if _TENSORFLOW.search(name):
        return Kind.CHECKPOINT
    if not _MODEL.search(name):
        return None
    return (
        Kind.CHECKPOINT if name.endswith(".ckpt") or _CHECKPOINT_NAME.search(name) else Kind.MODEL
    )


def proxied_path(root: str, address: Address) -> str | None:
    """Return the path at the server's file proxy for files of ``root``, or None.

    ``root`` is ``mlflow-artifacts:/…`` of this server, or the proxy's own address. Other locations
    (s3://, file:) need a fetch by MLflow, or belong to another server.
    """
    try:
        parts = urlsplit(root)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return None
    path = unquote(parts.path)
    if parts.scheme == "mlflow-artifacts":
        if host and (host, port or address.port) != (address.host.lower(), address.port):
            return None
    elif parts.scheme == address.scheme:
        own = address.path + PROXY
        ports = {"http": 80, "https": 443}
        if (host, port or ports[address.scheme]) != (
            address.host.lower(),
            address.port,
        ) or not path.startswith(own + "/"):
            return None
        path = path.removeprefix(own)
    else:
        return None
    path = path.strip("/")
    return (
        None if {"..", "."} & set(path.split("/")) or is_unstorable(path) or "\\" in path else path
    )


def models_of(run: dict[str, Any], part: str, name: str) -> dict[str, int | None]:
    """Return {id: step} of the logged models in a run's outputs or inputs.

    ``part``, ``name``: the two keys, such as ``outputs`` and ``model_outputs``.
    """
    rows = section.get(name) if isinstance(section := run.get(part), dict) else None
    models = {}
    for row in rows if isinstance(rows, list) else []:
        model = row.get("model_id") if isinstance(row, dict) else None
        if isinstance(model, str) and MODEL_ID.fullmatch(model):
            models[model] = whole(row.get("step"))
    return models
