"""Which process of a distributed job this one is."""

from __future__ import annotations

import os
from typing import Mapping

# What launchers set: torchrun, Slurm, Open MPI, MPICH, PMIx, Lightning's own. 0, or nothing, is the first.
_RANKS = (
    "RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
)  # fmt: skip
_TORCHRUN = "TORCHELASTIC_RUN_ID"


def is_first(environ: Mapping[str, str]) -> bool:
    """Whether this process tells for all: it is the first rank, or there are none."""
    return all(environ.get(rank, "0") in ("", "0") for rank in _RANKS)


def root_pid(environ: Mapping[str, str]) -> int:
    """The process from which all ranks on this machine descend: torchrun's agent where it started us, else we ourselves."""
    return os.getppid() if environ.get(_TORCHRUN) else os.getpid()
