"""300 pairs of training runs, for measuring the detection of duplicates."""

from tests.preflight.pairs import (
    argparse_pairs,
    configuration_pairs,
    environment_pairs,
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
