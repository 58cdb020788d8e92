"""Hydra's configuration of a run, composed by the Hydra of the program's own Python.

Only Hydra is imported, isolated from the folder and the variables of the program; no code of the
program runs. Without Hydra, or where the composition needs the program, it is unknown.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from labcarbon_collect.files.read_limits import Budget
from labcarbon_collect.fingerprint.code_facts import HydraCall

_FOLDER_OPTIONS = {"--config-path": True, "-cp": True, "--config-dir": False, "-cd": False}
_NAME_OPTIONS = ("--config-name", "-cn")
_MIN_S, _MAX_OUTPUT_BYTES = 0.2, 1024 * 1024
_COMPOSE = """
import json, sys
question = json.load(sys.stdin)
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf
parsed = OverridesParser.create().parse_overrides(question["overrides"])
swept = {o.key_or_group: list(o.sweep_string_iterator()) for o in parsed if o.is_sweep_override()}
fixed = [o.input_line for o in parsed if not o.is_sweep_override()]
with initialize_config_dir(version_base=None, config_dir=question["folder"]):
    config = compose(config_name=question["name"], overrides=fixed)
raw = OmegaConf.to_container(config, resolve=False)
def pick(raw, resolved):
    if isinstance(raw, dict):
        return {str(k): pick(v, resolved[k]) for k, v in raw.items()}
    if isinstance(raw, list):
        return [pick(*pair) for pair in zip(raw, resolved)]
    return raw if isinstance(raw, str) and ("${now:" in raw or "${hydra:" in raw) else resolved
try:
    values = pick(raw, OmegaConf.to_container(config, resolve=True))
except Exception:
    values = raw
json.dump({"values": values, "swept": swept}, sys.stdout, default=str)
"""


class ComposeTimeout(Exception):
    """Hydra did not compose the configuration in time."""


@dataclass
class Composed:
    """``values``: the configuration. ``swept``: values of each swept override. ``folder``: the
    folder of the configuration files.
    """

    values: Dict[str, Any] = field(default_factory=dict)
    swept: Dict[str, List[str]] = field(default_factory=dict)
    folder: str = ""


def compose(
    call: HydraCall,
    arguments: Sequence[str],
    *,
    script: str,
    interpreter: str,
    cwd: str,
    environ: Mapping[str, str],
    budget: Budget,
) -> Optional[Composed]:
    """Return the configuration of a program that is started with ``arguments``, or None if it
    is unknown. Raises ComposeTimeout.
    """
    folder, name, overrides = _place(call, arguments, os.path.dirname(script), cwd)
    if not name or not os.path.isdir(folder):
        return None
    question = {"folder": os.path.realpath(folder), "name": name, "overrides": overrides}
    seconds = max(_MIN_S, budget.remaining_s * 0.8)
    try:
        output = _run(
            [interpreter, "-I", "-c", _COMPOSE],
            json.dumps(question).encode(),
            cwd=cwd,
            environ=environ,
            seconds=seconds,
        )
        answer = json.loads(output)
        values, swept = answer["values"], answer["swept"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not isinstance(values, dict) or not isinstance(swept, dict):
        return None
    if not all(isinstance(texts, list) for texts in swept.values()):
        return None
    return Composed(values, swept, os.path.realpath(folder))


def _run(
    command: Sequence[str], content: bytes, *, cwd: str, environ: Mapping[str, str], seconds: float
) -> bytes:
    """Return the output of a program; "" if it fails or prints too much. Raises OSError, and
    ComposeTimeout after ``seconds``. Its processes are then ended.
    """
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=cwd,
        env=dict(environ),
        start_new_session=True,
    ) as process:
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            _kill(process)

        timer = threading.Timer(seconds, end)
        timer.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(BrokenPipeError):
                process.stdin.write(content)
                process.stdin.close()
            output = process.stdout.read(_MAX_OUTPUT_BYTES + 1)
            if len(output) > _MAX_OUTPUT_BYTES:
                _kill(process)
                output = b""
            exit_code = process.wait()
        finally:
            timer.cancel()
    if is_late.is_set():
        raise ComposeTimeout
    return b"" if exit_code else output


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a program and what it started: it leads a process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _place(
    call: HydraCall, arguments: Sequence[str], script_folder: str, cwd: str
) -> Tuple[str, Optional[str], List[str]]:
    """Return folder and name of the configuration, and the overrides of Hydra's command line."""
    folder = os.path.join(script_folder, call.folder or "")
    name = call.name
    overrides: List[str] = []
    words = list(arguments)
    while words:
        option, equals, text = words.pop(0).partition("=")
        if option in _FOLDER_OPTIONS or option in _NAME_OPTIONS:
            value = text if equals else words.pop(0) if words else ""
            if option in _NAME_OPTIONS:
                name = value
            else:
                folder = os.path.join(script_folder if _FOLDER_OPTIONS[option] else cwd, value)
        elif equals and not option.startswith("-") and not option.lstrip("+~").startswith("hydra."):
            overrides.append(f"{option}={text}")
        elif option.startswith("~"):
            overrides.append(option)
    if name and name.endswith(".yaml"):
        name = name[: -len(".yaml")]
    return folder, name, overrides
