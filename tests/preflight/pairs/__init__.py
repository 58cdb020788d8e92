"""Pairs of training runs, for measuring the detection of duplicates: 300 pairs, and 100 held-out
pairs, which were written by somebody who had not read the implementation.
"""

from tests.preflight.pairs import (
    argparse_pairs,
    configuration_pairs,
    environment_pairs,
    heldout_arguments,
    heldout_programs,
    heldout_settings,
    hydra_pairs,
    launcher_pairs,
    mlflow_pairs,
    notebook_pairs,
)
from tests.preflight.pairs.model import Pair

PAIRS: tuple[Pair, ...] = (
    *argparse_pairs.PAIRS,
    *configuration_pairs.PAIRS,
    *environment_pairs.PAIRS,
    *hydra_pairs.PAIRS,
    *launcher_pairs.PAIRS,
    *mlflow_pairs.PAIRS,
    *notebook_pairs.PAIRS,
)

HELD_OUT: tuple[Pair, ...] = (
    *heldout_arguments.PAIRS,
    *heldout_settings.PAIRS,
    *heldout_programs.PAIRS,
)
