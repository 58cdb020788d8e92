"""What a command line starts: through launchers and wrappers to the script, module or program, and its arguments. Pure."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from labcarbon_collect.command_line import LAUNCHERS, SCRIPT, identify_interpreter, parse_program

_DEEPEST = 8
# Programs that only start another one, with their options that take the next word as their value.
_WRAPPERS: Mapping[str, Tuple[str, ...]] = {
    "env": ("-u", "--unset", "-C", "--chdir"), "nohup": (), "nice": ("-n", "--adjustment"), "time": ("-f", "-o"),
    "ionice": ("-c", "-n"), "stdbuf": ("-i", "-o", "-e"), "timeout": ("-s", "-k"), "taskset": ("-c",),
    "setsid": (), "numactl": (), "xvfb-run": ("-s", "-n"), "srun": ("-n", "-N", "-c", "-p", "-t", "-J", "-A"),
    "uv": ("--with", "--python"),
    "mpirun": ("-np", "-n", "-H", "-x", "--host", "--hostfile"), "mpiexec": ("-np", "-n", "-H"), "poetry": (), "pixi": (),
    "conda": ("-n", "--name", "-p", "--prefix"), "mamba": ("-n", "--name", "-p", "--prefix"), "pdm": (), "hatch": (),
    "nsys": ("-o", "-t"), "ncu": ("-o",),
}  # fmt: skip
_WRAPPER_WORDS = frozenset(("run", "profile", "exec"))
_MODULES_THAT_LAUNCH = frozenset((
    "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "deepspeed.launcher.runner",
    "lightning.fabric", "horovod.runner",
))  # fmt: skip
_PER_NODE = re.compile(r"^--(nproc[-_]per[-_]node|num[-_]processes|num[-_]gpus|nproc|np)$|^-np$|^-n$")
_NODES = re.compile(r"^--(nnodes|num[-_]nodes|num[-_]machines)$|^-N$")
_OF_LAUNCHER = ("mixed_precision", "dynamo_backend")


@dataclass(frozen=True)
class Launched:
    """What is started. ``kind``: script, module, inline, notebook or program; ``world_size`` where a launcher tells it."""

    kind: str
    entry: str
    arguments: Tuple[str, ...] = ()
    interpreter: str = ""
    family: str = ""
    world_size: Optional[int] = None
    settings: Mapping[str, str] = field(default_factory=dict)  # of the launcher, those that may change a result


def launched(command: Sequence[str], environ: Mapping[str, str]) -> Launched:
    """What ``command`` starts, as far as words alone tell it; ``world_size`` also from WORLD_SIZE."""
    found = _unwrapped([str(word) for word in command], 0)
    told = environ.get("WORLD_SIZE", "")
    if found.world_size is None and told.isdigit():
        return _with(found, world_size=int(told))
    return found


def _unwrapped(words: List[str], depth: int) -> Launched:
    if not words:
        return Launched("program", "")
    name = os.path.basename(words[0].rstrip("/"))
    if depth < _DEEPEST:
        if name == "papermill" or (name == "jupyter" and words[1:2] == ["nbconvert"]):
            return _notebook(words, name)
        if name in _WRAPPERS:
            return _wrapped(words, name, depth)
        if name in LAUNCHERS:
            return _by_launcher(words[0], words[1:])
    family = identify_interpreter(name)
    if family is None:
        kind = "script" if SCRIPT.match(name) else "program"
        return Launched(kind, words[0], tuple(words[1:]), family="python" if name.endswith(".py") else "")
    program = parse_program(family, words[1:])
    if program.kind == "module" and program.text in _MODULES_THAT_LAUNCH:
        return _by_launcher(words[0], list(program.rest))
    if not program.kind:
        return Launched("program", words[0], tuple(words[1:]), interpreter=words[0], family=family)
    return Launched(program.kind, program.text, tuple(program.rest), words[0], family)


def _wrapped(words: List[str], name: str, depth: int) -> Launched:
    """The command after a wrapper's own options and settings."""
    at, processes = 1, None
    while at < len(words):
        word = words[at]
        if word.startswith("-"):
            if _PER_NODE.match(word) and name in ("mpirun", "mpiexec", "srun"):
                processes = _number(words[at + 1 : at + 2])
            at += 2 if word in _WRAPPERS[name] else 1
        elif (name == "env" and "=" in word) or word in _WRAPPER_WORDS or _bare_number(name, word):
            at += 1
        else:
            break
    found = _unwrapped(words[at:], depth + 1)
    return _with(found, world_size=processes) if processes and found.world_size is None else found


def _bare_number(name: str, word: str) -> bool:
    """``timeout 30m``, ``taskset 0xff``."""
    return name in ("timeout", "taskset") and re.fullmatch(r"[\da-fx.]+[smhd]?", word) is not None


def _by_launcher(executable: str, words: List[str]) -> Launched:
    """torchrun, accelerate, deepspeed and their like: the script is the first word that is named as one."""
    per_node: Optional[int] = None
    nodes, settings = 1, {}
    for at, word in enumerate(words):
        name, equals, text = word.partition("=")
        value = [text] if equals else words[at + 1 : at + 2]
        if _PER_NODE.match(name):
            per_node = _number(value) or per_node
        elif _NODES.match(name):
            nodes = _number(value) or nodes
        elif name.lstrip("-").replace("-", "_") in _OF_LAUNCHER and name.startswith("--") and value:
            settings[name.lstrip("-").replace("-", "_")] = value[0]
        elif word in ("-m", "--module") and value:
            return _started("module", value[0], words[at + 2 :], executable, per_node, nodes, settings)
        elif SCRIPT.match(os.path.basename(word)) and not word.startswith("-"):
            return _started("script", word, words[at + 1 :], executable, per_node, nodes, settings)
    return Launched("program", executable, tuple(words))


def _started(
    kind: str, entry: str, rest: List[str], executable: str, per_node: Optional[int], nodes: int, settings: Dict[str, str]
) -> Launched:
    size = per_node * nodes if per_node else nodes if nodes > 1 else None
    return Launched(kind, entry, tuple(rest), executable, "python", size, settings)


def _notebook(words: List[str], name: str) -> Launched:
    """``papermill in.ipynb out.ipynb -p lr 0.1``: parameters as options; the second notebook is output."""
    entry, arguments, at = "", [], 1
    while at < len(words):
        word = words[at]
        if word in ("-p", "--parameters", "-r", "--parameters_raw") and at + 2 < len(words):
            arguments += [f"--{words[at + 1]}={words[at + 2]}"]
            at += 3
        elif word in ("-f", "--parameters_file") and at + 1 < len(words):
            arguments += [f"--config={words[at + 1]}"]
            at += 2
        else:
            entry = entry or (word if word.endswith(".ipynb") else "")
            at += 1
    kind = "notebook" if entry else "program"
    return Launched(kind, entry or name, tuple(arguments), family="python")


def _with(found: Launched, *, world_size: int) -> Launched:
    return Launched(
        found.kind, found.entry, found.arguments, found.interpreter, found.family, world_size, found.settings
    )  # fmt: skip


def _number(words: Sequence[str]) -> Optional[int]:
    return int(words[0]) if words and words[0].isdigit() and int(words[0][:7]) > 0 else None
