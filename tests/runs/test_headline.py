"""Which metric says best how a run went, and which way it is better."""

import pytest

from apps.runs.metric_summary import is_lower_better, select_headline_metric


@pytest.mark.parametrize(
    ("names", "shown"),
    [
    (["loss", "val_loss", "val_acc", "epoch"], "val_acc"), (["train_loss", "val_loss"], "val_loss"),
    (["loss", "acc"], "loss"), (["f1", "acc"], "acc"),
    (["epoch", "lr", "samples_per_second"], None), ([], None),
],
)  # fmt: skip
def test_shown(names: list[str], shown: str | None) -> None:
    assert select_headline_metric(names) == shown


@pytest.mark.parametrize(
    "name",
    [
        "val_loss",
        "Test Error",
        "perplexity",
        "eval/wer",
        "rmse",
        "val.mae",
        "nll",
        "latency_ms",
        "fid",
    ],
)
def test_less_is_better(name: str) -> None:
    assert is_lower_better(name)


@pytest.mark.parametrize(
    "name",
    [
        "val_acc",
        "f1",
        "mAP",
        "auc",
        "confidence",
        "overridden",
        "ferret_score",
        "samples_per_second",
    ],
)
def test_more_is_better(name: str) -> None:
    assert not is_lower_better(name)
