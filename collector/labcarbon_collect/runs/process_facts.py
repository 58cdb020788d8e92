"""Facts of this process: its rank, command, folder and end."""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import List, Mapping, Optional

from labcarbon_collect.command_line import parse_program

# Set by torchrun, Slurm, Open MPI, MPICH, PMIx and Lightning. 0 or unset is the first rank.
_RANKS = (
    "RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK",
    "PMI_RANK", "PMIX_RANK",
)  # fmt: skip
_TORCHRUN = "TORCHELASTIC_RUN_ID"


def is_first_rank(environ: Mapping[str, str]) -> bool:
    """Return whether this process reports for all ranks: it is the first, or the only one."""
    return all(environ.get(rank, "0") in ("", "0") for rank in _RANKS)


def root_pid(environ: Mapping[str, str]) -> int:
    """Return the process from which all ranks on this node descend: torchrun's agent, else this
    process.
    """
    return os.getppid() if environ.get(_TORCHRUN) else os.getpid()


# The outermost function of a script, and of a module started with -m.
_OUTERMOST_FUNCTIONS = ("<module>", "_run_module_as_main")


def start_command() -> List[str]:
    """Return the command that started this process.

    An installed command (``…/bin/train``) is returned by its name, because its file only imports
    the program.
    """
    original_argv = getattr(sys, "orig_argv", None)
    arguments = list(original_argv) if original_argv else [sys.executable or "python", *sys.argv]
    program = parse_program("python", arguments[1:])
    if program.kind == "script" and _is_installed(program.text):
        return [os.path.basename(program.text), *program.arguments]
    return arguments


def start_folder() -> str:
    """Return the folder in which this process was started, even if it has changed folder. The
    script's path reveals it.
    """
    cwd = os.getcwd()
    arguments = getattr(sys, "orig_argv", None) or [sys.executable, *sys.argv]
    program = parse_program("python", arguments[1:])
    if program.kind != "script" or os.path.isabs(program.text):
        return cwd
    path = getattr(sys.modules.get("__main__"), "__file__", None) or ""
    below = os.sep + program.text
    return (path[: -len(below)] or os.sep) if os.path.isabs(path) and path.endswith(below) else cwd


def uncaught_error() -> Optional[BaseException]:
    """Return the error that ends this process, or None. Python does not store it for
    ``sys.exit``.
    """
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if not isinstance(error, BaseException) or error.__traceback__ is None:
        return None
    return error if error.__traceback__.tb_frame.f_code.co_name in _OUTERMOST_FUNCTIONS else None


def exit_code(error: Optional[BaseException]) -> int:
    """Return the exit code with which the interpreter ends."""
    if error is None:
        return 0
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def is_interactive() -> bool:
    """Return whether a person types the code: in a notebook, in IPython or at Python's prompt."""
    ipython = sys.modules.get("IPython")
    shell = getattr(ipython, "get_ipython", None)
    return hasattr(sys, "ps1") or (shell is not None and shell() is not None)


def is_multiprocessing_worker() -> bool:
    """Return whether ``multiprocessing`` started this process."""
    parent_process = getattr(sys.modules.get("multiprocessing"), "parent_process", None)
    return parent_process is not None and parent_process() is not None


def _is_installed(path: str) -> bool:
    scripts = sysconfig.get_path("scripts")
    return bool(scripts) and os.path.dirname(os.path.realpath(path)) == os.path.realpath(scripts)
