"""Choices of the planner."""

from django.db.models import TextChoices


class Basis(TextChoices):
    """What an estimate rests on, the most trusted first."""

    OWN_RUNS = "own_runs", "Own runs of the same family"
    PROBE = "probe", "Probe"
    OPERATIONS = "operations", "Operations and the lab's own energy per operation"
    CATALOGUE = "catalogue", "Catalogue (order of magnitude)"
    NONE = "none", "No basis"


class Trainable(TextChoices):
    """What a training changes."""

    FULL = "full", "Everything"
    ADAPTERS = "adapters", "Adapters (LoRA)"
    HEAD = "head", "New head on a frozen body"


class Precision(TextChoices):
    """Precision of the computation. Mixed: 16 bits, with weights of 32 bits."""

    FP32 = "fp32", "32 bits"
    MIXED = "mixed", "Mixed"


class ServingBasis(TextChoices):
    """What the energy of a request rests on."""

    OWN_SERVICE = "own_service", "Own service run"
    MLPERF = "mlperf", "MLPerf Inference (order of magnitude)"
    NONE = "none", "No basis"


ESTIMATE_VERSION = 1  # of the formulas; a change of their results needs a new number
