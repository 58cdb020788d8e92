"""The role of path arguments: data, start, configuration or output. Existing paths are not
parameters.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from typing import Optional

from labcarbon_collect.lc1 import is_number, sort_params

DATA, START, CONFIG, OUTPUT, PARAM = "data", "start", "config", "output", "param"
_MAX_LENGTH = 4096
_WEIGHTS = re.compile(
    r"\.(pt|pth|ckpt|safetensors|h5|hdf5|keras|gguf|onnx|pdparams|msgpack)$", re.IGNORECASE
)
_CONFIG_FILE = re.compile(r"\.(ya?ml|toml|ini|cfg|conf|gin)$", re.IGNORECASE)
_START = re.compile(
    r"(^|_)(checkpoints?|ckpt|resume\w*|pretrained|weights|init|initial|initialize|restore|load|"
    r"warm_?start|finetune(_from)?|"
    r"start_from|from_checkpoint|model_name_or_path|model_path|base_model|teacher)(_|$)"
)
_CONFIG = re.compile(
    r"(^|_)(config|cfg|conf|configs|hparams|hyperparameters|deepspeed|args_file|params_file)(_|$)"
)
_PATH_NAME = re.compile(
    r"(^|_)(data|datadir|dir|path|file|files|root|folder|dataset_dir|train|val|valid|validation|"
    r"test|eval|input|inputs|"
    r"images|labels|corpus|csv|manifest|annotations|split|splits|src|source)(_|$)|^arg\d+$"
)
# Output parameters in addition to those that lc1 drops.
_OUTPUT = re.compile(
    r"^(save(_(to|as|model|file|name|weights|prefix))?|export(_(to|dir|path|file))?|dest|"
    r"destination|write_to|dump(_to)?|"
    r"(\w+_)?out(put)?s?_(dir|path|file|folder|name|root|prefix)|"
    r"((model|save|train|test|eval|pred|prediction|result|json|csv|image|data)_)?out(put)?s?|"
    r"\w+_outputs?|out(dir|path|file)|log_?file|"
    r"logs?|results?(_file|_csv)?|"
    r"predictions?(_file)?|plots?(_dir)?|figures?(_dir)?|metrics_file)$"
)


@dataclass(frozen=True)
class InputPath:
    """A given path. ``role``: the name of its argument."""

    kind: str
    role: str
    path: str
    is_folder: bool = False


def last_part(name: str) -> str:
    """Return the normalised last part of a parameter's name: ``--model.ckpt-path`` is
    ``ckpt_path``.
    """
    return name.lstrip("-+").replace("-", "_").replace("/", ".").rsplit(".", 1)[-1].lower()


def is_output(name: str, text: str) -> bool:
    """Return whether this names an output path, existing or not. Outputs are dropped, so that a
    second run is equal.
    """
    last_two = "_".join(
        name.lstrip("-+").replace("-", "_").replace("/", ".").split(".")[-2:]
    ).lower()
    return bool(_OUTPUT.match(last_part(name)) or _OUTPUT.match(last_two)) and not (
        is_number(text) or re.fullmatch(r"[-+.\d]+|true|false", text.strip(), re.IGNORECASE)
    )


def is_bare_output(name: str, text: str) -> bool:
    """Return whether a value of an output may say what the output is, because it has no sign of a
    path: ``softmax``.
    """
    is_ambiguous = re.fullmatch(r"(\w+_)?outputs?|save|export|dump", last_part(name)) is not None
    return is_ambiguous and re.fullmatch(r"[\w-]+", text) is not None


def classify_path(name: str, text: str, cwd: str) -> Optional[InputPath]:
    """Return the role of an existing path, or None. Devices and pipes have none."""
    if not text or len(text) > _MAX_LENGTH or "://" in text or "\0" in text or "\n" in text:
        return None
    path = os.path.join(cwd, text)
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return None
    is_folder = stat.S_ISDIR(mode)
    if not is_folder and not stat.S_ISREG(mode):
        return None
    kind = _classify(last_part(name), name, text, is_folder)
    return InputPath(kind, name.lstrip("-+"), path, is_folder) if kind != PARAM else None


def _classify(last_name: str, name: str, text: str, is_folder: bool) -> str:
    is_dropped = bool(sort_params({name: "text"}).dropped)
    if _START.search(last_name) and not (is_folder and is_dropped):
        return START
    if is_dropped:
        return OUTPUT
    if not is_folder and _CONFIG.search(last_name):
        return CONFIG
    if not is_folder and (_CONFIG_FILE.search(text) or _is_bare_config(last_name, text)):
        return CONFIG
    if (
        not is_folder
        and _WEIGHTS.search(text)
        and not _PATH_NAME.search(last_name.replace("path", "").replace("file", ""))
    ):
        return START
    # A bare word may equal a folder's name by accident, unless the argument is for paths.
    is_bare = os.sep not in text and "." not in text
    return DATA if not is_bare or _PATH_NAME.search(last_name) else PARAM


def _is_bare_config(last: str, text: str) -> bool:
    """Return whether this is a Python file, or a JSON file given without a name (``train.py
    args.json``). Other JSON is data.
    """
    return text.endswith(".py") or (
        text.endswith(".json") and re.fullmatch(r"arg\d+", last) is not None
    )
