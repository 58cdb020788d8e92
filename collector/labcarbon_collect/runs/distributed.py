"""Which process of a distributed job this one is."""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import List, Mapping, Optional

from labcarbon_collect.command_line import parse_program

# What launchers set: torchrun, Slurm, Open MPI, MPICH, PMIx, Lightning's own. 0, or nothing, is the first.
_RANKS = (
    "RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
)  # fmt: skip
_TORCHRUN = "TORCHELASTIC_RUN_ID"


def is_first_rank(environ: Mapping[str, str]) -> bool:
    """Whether this process tells for all: it is the first rank, or there are none."""
    return all(environ.get(rank, "0") in ("", "0") for rank in _RANKS)


def root_pid(environ: Mapping[str, str]) -> int:
    """The process from which all ranks on this machine descend: torchrun's agent where it started us, else we ourselves."""
    return os.getppid() if environ.get(_TORCHRUN) else os.getpid()


# The outermost function of a script, and of a module that was started with -m.
_OUTERMOST_FUNCTIONS = ("<module>", "_run_module_as_main")


def start_command() -> List[str]:
    """How this process was started.

    A command that was installed (``…/bin/train``) is named as it was typed: its file only imports what it runs, and says
    nothing of it.
    """
    original_argv = getattr(sys, "orig_argv", None)
    arguments = list(original_argv) if original_argv else [sys.executable or "python", *sys.argv]
    program = parse_program("python", arguments[1:])
    if program.kind == "script" and _is_installed(program.text):
        return [os.path.basename(program.text), *program.arguments]
    return arguments


def start_folder() -> str:
    """Where this process was started, also if it went elsewhere since: a script's own path tells it."""
    cwd = os.getcwd()
    arguments = getattr(sys, "orig_argv", None) or [sys.executable, *sys.argv]
    program = parse_program("python", arguments[1:])
    if program.kind != "script" or os.path.isabs(program.text):
        return cwd
    path = getattr(sys.modules.get("__main__"), "__file__", None) or ""
    below = os.sep + program.text
    return (path[: -len(below)] or os.sep) if os.path.isabs(path) and path.endswith(below) else cwd


def uncaught_error() -> Optional[BaseException]:
    """The error that ends this process, as far as Python keeps it: none where it called ``sys.exit``."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if not isinstance(error, BaseException) or error.__traceback__ is None:
        return None
    return error if error.__traceback__.tb_frame.f_code.co_name in _OUTERMOST_FUNCTIONS else None


def exit_code(error: Optional[BaseException]) -> int:
    """What the interpreter will end with."""
    if error is None:
        return 0
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def is_interactive() -> bool:
    """Whether a person types what this process does: in a notebook, in IPython or at Python's prompt."""
    ipython = sys.modules.get("IPython")
    shell = getattr(ipython, "get_ipython", None)
    return hasattr(sys, "ps1") or (shell is not None and shell() is not None)


def is_multiprocessing_worker() -> bool:
    """Whether ``multiprocessing`` started this process."""
    parent_process = getattr(sys.modules.get("multiprocessing"), "parent_process", None)
    return parent_process is not None and parent_process() is not None


def _is_installed(path: str) -> bool:
    scripts = sysconfig.get_path("scripts")
    return bool(scripts) and os.path.dirname(os.path.realpath(path)) == os.path.realpath(scripts)
