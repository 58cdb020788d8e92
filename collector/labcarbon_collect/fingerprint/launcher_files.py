"""The configuration file of accelerate, which sets the number of processes and the precision."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Dict, Mapping

from labcarbon_collect.fingerprint.arguments import config_params
from labcarbon_collect.fingerprint.launchers import Launch

_DEFAULT_NAME = "default_config.yaml"
# Of the file, only these change a result; others place the processes.
_SETTINGS = ("mixed_precision", "dynamo_backend")
_NESTED = ("fsdp_config.", "deepspeed_config.", "megatron_lm_config.", "dynamo_config.")
# Without effect: the value that accelerate uses without the setting.
_DEFAULTS = {"mixed_precision": "no", "dynamo_backend": "no"}


def apply_launcher_file(launch: Launch, cwd: str, environ: Mapping[str, str]) -> Launch:
    """Return the launch with the settings of accelerate's configuration file. Options of the
    command line take precedence. Raises OSError for a named file that cannot be read.
    """
    if launch.launcher != "accelerate":
        return launch
    settings: Dict[str, Any] = {}
    path = os.path.join(cwd, launch.launcher_file or _default_file(environ))
    if launch.launcher_file or os.path.isfile(path):
        settings = config_params(path, "launcher")
    merged = {
        name: value
        for name, value in settings.items()
        if name in _SETTINGS or name.startswith((*_NESTED, "config:"))
    }
    merged.update(launch.settings)
    compared = {
        name: value
        for name, value in merged.items()
        if str(value).lower() != _DEFAULTS.get(name, "") and value is not False
    }
    size = settings.get("num_processes")
    return replace(
        launch,
        settings=compared,
        world_size=launch.world_size or (size if isinstance(size, int) and size > 0 else None),
    )


def _default_file(environ: Mapping[str, str]) -> str:
    home = environ.get("HOME", "")
    cache = environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    hf_home = environ.get("HF_HOME") or os.path.join(cache, "huggingface")
    return os.path.join(os.path.expanduser(hf_home), "accelerate", _DEFAULT_NAME)
