"""The script, module or program that a command line starts through launchers and wrappers, and its
arguments. Pure.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from labcarbon_collect.command_line import LAUNCHERS, SCRIPT, identify_interpreter, parse_program

_MAX_DEPTH = 8
# Programs that only start another one, with their options that take a value.
_WRAPPERS: Mapping[str, Tuple[str, ...]] = {
    "env": ("-u", "--unset", "-C", "--chdir"), "nohup": (), "nice": ("-n", "--adjustment"),
    "time": ("-f", "-o"), "ionice": ("-c", "-n"), "stdbuf": ("-i", "-o", "-e"),
    "timeout": ("-s", "-k"), "taskset": ("-c",), "setsid": (), "numactl": (),
    "xvfb-run": ("-s", "-n"), "srun": (
        "-n", "-N", "-c", "-p", "-t", "-J", "-A", "-w", "-x", "-C", "-q", "-o", "-e", "-i", "-D",
        "-d", "-G", "-m", "--ntasks", "--nodes", "--cpus-per-task", "--partition", "--time",
        "--job-name", "--account", "--nodelist", "--exclude", "--constraint", "--qos", "--output",
        "--error", "--input", "--chdir", "--dependency", "--gpus", "--gres", "--mem",
        "--mem-per-cpu", "--mem-per-gpu", "--ntasks-per-node", "--gpus-per-task",
        "--gpus-per-node", "--cpu-bind", "--gpu-bind", "--mpi", "--export", "--reservation",
        "--distribution",
    ),
    "uv": ("--with", "--python"), "mpirun": ("-np", "-n", "-H", "-x", "--host", "--hostfile"),
    "mpiexec": ("-np", "-n", "-H"), "poetry": (), "pixi": (),
    "conda": ("-n", "--name", "-p", "--prefix"), "mamba": ("-n", "--name", "-p", "--prefix"),
    "pdm": (), "hatch": (), "nsys": ("-o", "-t"), "ncu": ("-o",),
}  # fmt: skip
_WRAPPER_WORDS = frozenset(("run", "profile", "exec"))
_LAUNCHER_MODULES = frozenset((
    "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch",
    "deepspeed.launcher.runner", "lightning.fabric", "horovod.runner",
))  # fmt: skip
_PER_NODE = re.compile(
    r"^--(nproc[-_]per[-_]node|num[-_]processes|num[-_]gpus|nproc|np|ntasks)$|^-np$|^-n$"
)
_NODES = re.compile(r"^--(nnodes|num[-_]nodes|num[-_]machines)$|^-N$")
_LAUNCHER_SETTINGS = ("mixed_precision", "dynamo_backend")
_LAUNCHER_VARIABLES = {
    "--master_port": "MASTER_PORT", "--master-port": "MASTER_PORT",
    "--main_process_port": "MASTER_PORT", "--master_addr": "MASTER_ADDR",
    "--master-addr": "MASTER_ADDR", "--main_process_ip": "MASTER_ADDR",
}  # fmt: skip
_PAPERMILL_TEXTS = {
    "-y": "parameters_yaml", "--parameters_yaml": "parameters_yaml",
    "-b": "parameters_base64", "--parameters_base64": "parameters_base64",
}  # fmt: skip


@dataclass(frozen=True)
class Launch:
    """What is started. ``kind``: script, module, inline, notebook or program. ``world_size``: from
    the launcher, if known.

    ``given``: variables that the command sets (``env X=1``); ``removed``: those that it unsets;
    ``is_isolated``: it inherits none (``env -i``). ``launcher_variables``: those that
    the launcher will set. ``launcher``: accelerate, if it starts the program; ``launcher_file``:
    its configuration file, if the command names one.
    """

    kind: str
    entry: str
    arguments: Tuple[str, ...] = ()
    interpreter: str = ""
    family: str = ""
    world_size: Optional[int] = None
    settings: Mapping[str, str] = field(
        default_factory=dict
    )  # settings of the launcher that may change a result
    given: Mapping[str, str] = field(default_factory=dict)
    launcher_variables: Mapping[str, str] = field(default_factory=dict)
    launcher: str = ""
    launcher_file: str = ""
    removed: Tuple[str, ...] = ()
    is_isolated: bool = False


def parse_launch(command: Sequence[str], environ: Mapping[str, str]) -> Launch:
    """Parse a command by its words alone. ``world_size`` may also come from WORLD_SIZE."""
    launch = _parse_words([str(word) for word in command], 0)
    world_size = _parse_count([environ.get("WORLD_SIZE", "")])
    if launch.world_size is None and world_size:
        return replace(launch, world_size=world_size)
    return launch


def _parse_words(words: List[str], depth: int) -> Launch:
    if not words:
        return Launch("program", "")
    name = os.path.basename(words[0].rstrip("/"))
    if depth < _MAX_DEPTH:
        if name == "papermill" or (name == "jupyter" and words[1:2] == ["nbconvert"]):
            return _parse_notebook(words, name)
        if name in _WRAPPERS:
            return _parse_wrapped(words, name, depth)
        if name in LAUNCHERS:
            return _parse_launcher(words[0], words[1:])
    family = identify_interpreter(name)
    if family is None:
        kind = "script" if SCRIPT.match(name) else "program"
        return Launch(
            kind, words[0], tuple(words[1:]), family="python" if name.endswith(".py") else ""
        )
    program = parse_program(family, words[1:])
    if program.kind == "module" and program.text in _LAUNCHER_MODULES:
        return _parse_launcher(words[0], list(program.arguments))
    if not program.kind:
        return Launch("program", words[0], tuple(words[1:]), interpreter=words[0], family=family)
    return Launch(program.kind, program.text, tuple(program.arguments), words[0], family)


def _parse_wrapped(words: List[str], name: str, depth: int) -> Launch:
    """Parse the command after a wrapper's own options and settings."""
    index, processes = 1, None
    given: Dict[str, str] = {}
    removed: List[str] = []
    is_isolated = False
    while index < len(words):
        word = words[index]
        if word.startswith("-"):
            option, equals, text = word.partition("=")
            values = [text] if equals else words[index + 1 : index + 2]
            if name == "env":
                is_isolated |= option in ("-", "-i", "--ignore-environment")
                removed += values if option in ("-u", "--unset") else []
            if name in ("mpirun", "mpiexec", "srun"):
                if _PER_NODE.match(option):
                    processes = _parse_count(values)
                elif option in ("--export", "-x") and not (name == "srun" and option == "-x"):
                    given.update(_exported(values))
            index += 2 if word in _WRAPPERS[name] else 1
        elif name == "env" and "=" in word:
            variable, _, value = word.partition("=")
            given[variable] = value
            index += 1
        elif word in _WRAPPER_WORDS or _is_wrapper_value(name, word):
            index += 1
        else:
            break
    launch = _parse_words(words[index:], depth + 1)
    launch = replace(
        launch,
        given={**given, **launch.given},
        removed=(*removed, *launch.removed),
        is_isolated=is_isolated or launch.is_isolated,
    )
    return replace(launch, world_size=launch.world_size or processes)


def _exported(values: Sequence[str]) -> Dict[str, str]:
    """Return the variables that a launcher sets: ``--export=ALL,LR=0.1``, ``-x LR=0.1``."""
    words = ",".join(values).split(",")
    return {word.partition("=")[0]: word.partition("=")[2] for word in words if "=" in word}


def _is_wrapper_value(name: str, word: str) -> bool:
    """Return whether a word is a wrapper's value: ``timeout 30m``, ``taskset 0xff``."""
    return name in ("timeout", "taskset") and re.fullmatch(r"[\da-fx.]+[smhd]?", word) is not None


def _parse_launcher(executable: str, words: List[str]) -> Launch:
    """Parse torchrun, accelerate, deepspeed and similar. The script is the first word with a
    script's name.
    """
    per_node: Optional[int] = None
    nodes, settings = 1, {}
    launcher_file, variables = "", {}
    for index, word in enumerate(words):
        name, equals, text = word.partition("=")
        value = [text] if equals else words[index + 1 : index + 2]
        if _PER_NODE.match(name):
            per_node = _parse_count(value) or per_node
        elif _NODES.match(name):
            nodes = _parse_count(value) or nodes
        elif (
            name.lstrip("-").replace("-", "_") in _LAUNCHER_SETTINGS
            and name.startswith("--")
            and value
        ):
            settings[name.lstrip("-").replace("-", "_")] = value[0]
        elif name in _LAUNCHER_VARIABLES and value:
            variables[_LAUNCHER_VARIABLES[name]] = value[0]
        elif name in ("--config_file", "--config-file") and value:
            launcher_file = value[0]
        elif word in ("-m", "--module") and value:
            kind, entry, rest = "module", value[0], words[index + 2 :]
            break
        elif SCRIPT.match(os.path.basename(word)) and not word.startswith("-"):
            kind, entry, rest = "script", word, words[index + 1 :]
            break
    else:
        return Launch("program", executable, tuple(words))
    size = per_node * nodes if per_node else nodes if nodes > 1 else None
    return Launch(
        kind,
        entry,
        tuple(rest),
        executable,
        "python",
        size,
        settings,
        launcher_variables=variables,
        launcher="accelerate" if _is_accelerate(executable, words) else "",
        launcher_file=launcher_file,
    )


def _is_accelerate(executable: str, words: Sequence[str]) -> bool:
    return os.path.basename(executable) == "accelerate" and words[:1] == ["launch"]


def _parse_notebook(words: List[str], name: str) -> Launch:
    """Parse ``papermill in.ipynb out.ipynb -p lr 0.1``: parameters are options, the second notebook
    is output.
    """
    entry, arguments, index = "", [], 1
    while index < len(words):
        word = words[index]
        if word in ("-p", "--parameters", "-r", "--parameters_raw") and index + 2 < len(words):
            arguments += [f"--{words[index + 1]}={words[index + 2]}"]
            index += 3
        elif word in ("-f", "--parameters_file") and index + 1 < len(words):
            arguments += [f"--config={words[index + 1]}"]
            index += 2
        elif word in _PAPERMILL_TEXTS and index + 1 < len(words):
            # Text with several parameters. It counts as a whole.
            arguments += [f"--{_PAPERMILL_TEXTS[word]}={words[index + 1]}"]
            index += 2
        elif word.partition("=")[0] in _PAPERMILL_TEXTS and "=" in word:
            arguments += [f"--{_PAPERMILL_TEXTS[word.partition('=')[0]]}={word.partition('=')[2]}"]
            index += 1
        else:
            entry = entry or (word if word.endswith(".ipynb") else "")
            index += 1
    kind = "notebook" if entry else "program"
    return Launch(kind, entry or name, tuple(arguments), family="python")


def _parse_count(words: Sequence[str]) -> Optional[int]:
    return int(words[0]) if words and words[0].isdigit() and int(words[0][:7]) > 0 else None
