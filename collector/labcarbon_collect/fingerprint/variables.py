"""Environment variables that are parameters: those that the program reads, and those of ``env
X=…``. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Set

from labcarbon_collect.fingerprint.code_facts import CodeFacts
from labcarbon_collect.fingerprint.syntax.options import NO_DEFAULT

PREFIX = "env."
# Set by a launcher, a scheduler, the desktop or the machine: they place a run and do not configure
# it. The number of a task in a job array usually selects its work.
_OF_THE_PLACE = re.compile(
    r"(GLOBAL_|LOCAL_|NODE_|GROUP_|ROLE_)?RANK|(LOCAL_|GROUP_|ROLE_)?WORLD_SIZE|NODE_NAME|"
    r"MASTER_(ADDR|PORT)|SLURM(?!_ARRAY_TASK_ID$)\w*|PBS_(?!ARRAY_?I)\w+|LSB_(?!JOBINDEX$)\w+|"
    r"SGE_(?!TASK_ID$)\w+|JOB_ID|OMPI_\w+|PMIX?_\w+|MPI_\w+|"
    r"TORCHELASTIC_\w+|TORCH_NCCL_\w+|NCCL_\w+|GLOO_\w+|UCX_\w+|ACCELERATE_\w+|FSDP_\w+|"
    r"KUBERNETES_\w+|POD_\w+|"
    r"HOSTNAME|HOST|HOME|USER|LOGNAME|USERNAME|SHELL|TERM|COLUMNS|LINES|PATH|PWD|OLDPWD|TMPDIR|"
    r"TEMP|TMP|EDITOR|PAGER|DISPLAY|WAYLAND_DISPLAY|LANG|LANGUAGE|LC_\w+|TZ|XDG_\w+|SSH_\w+|"
    r"DBUS_\w+|SUDO_\w+|CONDA_\w+|VIRTUAL_ENV|PYTHON(PATH|HOME|UNBUFFERED|DONTWRITEBYTECODE|"
    r"WARNINGS|FAULTHANDLER|IOENCODING|UTF8)|LD_\w+|CI|NO_COLOR|FORCE_COLOR|COLAB_\w+|KAGGLE_\w+|"
    r"CUDA_(VISIBLE_DEVICES|HOME|PATH|CACHE_PATH|LAUNCH_BLOCKING)|NVIDIA_VISIBLE_DEVICES|"
    r"(HIP|ROCR)_VISIBLE_DEVICES|PYTORCH_(CUDA_ALLOC_CONF|KERNEL_CACHE_PATH)|TOKENIZERS_PARALLELISM|"
    r"(OMP|MKL|OPENBLAS|NUMEXPR|VECLIB)\w*_THREADS|\w*PROXY|\w*proxy|\w+_CACHE(_DIR)?|HF_HOME|"
    r"HF_HUB_\w+|HF_DATASETS_(CACHE|OFFLINE)|TRANSFORMERS_(CACHE|OFFLINE)|TORCH_HOME|LABCARBON_\w+"
)
# Read by Python and libraries themselves, with an effect on numbers. Labels if they are set.
_OF_LIBRARIES = (
    "PYTHONHASHSEED", "PYTHONOPTIMIZE", "KERAS_BACKEND", "TF_USE_LEGACY_KERAS", "JAX_ENABLE_X64",
    "JAX_DEFAULT_MATMUL_PRECISION", "XLA_FLAGS", "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "TF_ENABLE_ONEDNN_OPTS", "TF_DETERMINISTIC_OPS",
    "CUBLAS_WORKSPACE_CONFIG", "MKL_CBWR",
)  # fmt: skip
_MAX_VARIABLES = 200


@dataclass
class Variables:
    """``values``: of variables that are set, by name with prefix. ``defaults``: of the code.

    ``labels``: names of variables that place a run and with which the code computes.
    """

    values: Dict[str, str] = field(default_factory=dict)
    defaults: Dict[str, Any] = field(default_factory=dict)
    labels: Set[str] = field(default_factory=set)


def select_variables(
    facts: CodeFacts, environ: Mapping[str, str], given: Mapping[str, str]
) -> Variables:
    """Return the variables that are parameters. ``environ``: the environment of the program.
    ``given``: the variables that the command sets.
    """
    names = {*facts.variables, *given}
    names |= {
        name for name in environ if any(name.startswith(start) for start in facts.variable_prefixes)
    }
    variables = Variables()
    for name in _OF_LIBRARIES:
        if environ.get(name) and name not in names:
            variables.values[f"{PREFIX}{name}"] = environ[name]
            variables.labels.add(f"{PREFIX}{name}")
    for name in sorted(names)[:_MAX_VARIABLES]:
        prefixed = f"{PREFIX}{name}"
        if _OF_THE_PLACE.fullmatch(name):
            if not facts.computed & {prefixed, name} and prefixed not in facts.read:
                continue
            variables.labels.add(prefixed)
        if name in environ:
            variables.values[prefixed] = environ[name]
        default = facts.variables.get(name, NO_DEFAULT)
        if default is not NO_DEFAULT:
            variables.defaults[prefixed] = default
    return variables


def is_of_the_place(name: str) -> bool:
    """Return whether a variable places a run and does not configure it."""
    return _OF_THE_PLACE.fullmatch(name) is not None


def parse_env_file(text: str) -> Dict[str, str]:
    """Return the variables of a file named ``.env``: ``NAME=value`` lines."""
    variables: Dict[str, str] = {}
    for line in text.splitlines():
        match = re.fullmatch(r"\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*", line)
        if match:
            value = match[2]
            if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
                value = value[1:-1]
            variables[match[1]] = value
    return variables
