"""What somebody looks for: words, sizes and bounds as an address writes them, and the artifacts
that fit.
"""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.artifacts.choices import CopyState
from apps.artifacts.models import Artifact, Copy
from apps.artifacts.search import (
    SEARCH_FIELDS,
    Search,
    metric_values,
    parse_search,
    rank_by_metric,
    search_artifacts,
)
from apps.artifacts.selectors import ArtifactFilter
from apps.core.errors import InvalidInput
from apps.core.units import INT64_MAX
from apps.runs.services.fingerprints import put_fingerprint
from tests.artifacts.support import (
    at_paths,
    create_run,
    data_fingerprint,
    digest,
    edge,
    register_artifact,
    register_rows,
    row,
    run_jobs,
    trained_model,
)
from tests.builders import SmallLab, small_lab

Look = Callable[..., list[str]]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("500", 500),
        ("500 kB", 500_000),
        ("1.5GB", 1_500_000_000),
        ("2 tb", 2 * 10**12),
        ("0.5 B", 0),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_search({"bytes_min": text}) == Search(bytes_min=size)


@given(st.integers(0, INT64_MAX))
def test_a_size_in_bytes_is_itself(size: int) -> None:
    assert parse_search({"bytes_max": str(size)}).bytes_max == size


@given(st.dictionaries(st.sampled_from(SEARCH_FIELDS), st.text(max_size=210)))
def test_whatever_is_written_is_understood_or_refused_in_words(params: dict[str, str]) -> None:
    found, refused = None, None
    try:
        found = parse_search(params)
    except InvalidInput as error:
        refused = error
    if refused is not None:
        assert refused.field in SEARCH_FIELDS
        assert refused.hint
    else:
        assert found is not None
        assert found.architecture == params.get("architecture", "").strip()


@pytest.mark.parametrize(
    ("params", "field"),
    [
    ({"bytes_min": "many"}, "bytes_min"), ({"bytes_min": "-1"}, "bytes_min"),
    ({"bytes_max": "9 EB 1"}, "bytes_max"), ({"bytes_max": "10 EB"}, "bytes_max"),
    ({"bytes_min": "1 GiB"}, "bytes_min"), ({"bytes_min": "٣"}, "bytes_min"),
    ({"bytes_min": "5", "bytes_max": "4"}, "bytes_max"), ({"medium": "paper"}, "medium"),
    ({"metric_min": "0.5"}, "metric"), ({"metric": "acc", "metric_min": "nan"}, "metric_min"),
    ({"metric": "acc", "metric_max": "much"}, "metric_max"),
    ({"metric": "acc", "metric_max": "inf"}, "metric_max"),
    ({"metric": "acc", "metric_min": "2", "metric_max": "1"}, "metric_max"),
    ({"licence": "a\x00"}, "licence"), ({"data": "x" * 201}, "data"),
],
)  # fmt: skip
def test_refused(params: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_search(params)
    assert refused.value.field == field


@pytest.fixture
def look(lab: SmallLab) -> Look:
    def names(**params: str) -> list[str]:
        return sorted(
            search_artifacts(lab.lab, ArtifactFilter(), parse_search(params)).values_list(
                "name", flat=True
            )
        )

    return names


def test_architecture(lab: SmallLab, look: Look) -> None:
    trained_model(lab, "a.pt", facts={"architecture": "resnet50"})
    trained_model(lab, "b.pt", tags={"model_type": "ResNet-18"})
    trained_model(
        lab, "c.pt", data="cats", facts={"note": "not a resnet"}
    )  # its run's parameter arch is resnet18
    trained_model(lab, "d.pt", facts={"architectures": "BertModel"})
    trained_model(lab, "e.pt", facts={"modelspec.architecture": "stable-diffusion-v1"})
    run_jobs()
    assert look(architecture="stable-diffusion") == ["e.pt"]
    assert look(architecture="resnet") == ["a.pt", "b.pt"]
    assert look(architecture="ResNet50") == ["a.pt"]
    assert look(architecture="resnet-18") == ["b.pt"]
    assert look(architecture="resnet18") == ["c.pt"]
    assert (
        look(architecture="bert")
        == look(architecture="BertModel")
        == look(architecture="model of bert")
        == ["d.pt"]
    )
    assert (
        look(architecture="vgg")
        == look(architecture="resnet bert")
        == look(architecture="architecture")
        == []
    )


def test_an_architecture_of_two_letters_is_found_as_it_was_told(lab: SmallLab, look: Look) -> None:
    trained_model(lab, "t5.pt", facts={"architecture": "t5"})
    trained_model(lab, "quoted.pt", facts={"architecture": 'a"b\\c ü 1'})
    run_jobs()
    assert look(architecture="T5") == ["t5.pt"]
    assert look(architecture='a"b\\c ü 1') == ["quoted.pt"]
    assert look(architecture="%") == look(architecture="_5") == []


def test_base_model(lab: SmallLab, look: Look) -> None:
    base = register_artifact(lab, "bert-base", kind="model")
    run = create_run(lab)
    register_rows(
        lab,
        row("bert-base", runs=[edge(run, "initialised_from")], kind="model"),
        row("tuned", runs=[edge(run)]),
    )
    register_artifact(lab, "said", kind="model", facts={"base_model": "google/BERT-base-uncased"})
    register_artifact(lab, "tagged", kind="model", tags={"base_model": "bert-base"})
    start = create_run(lab)
    put_fingerprint(
        run=start,
        payload=data_fingerprint("cats", start={"weak": digest("w"), "name": "bert-base-cased"}),
    )
    register_artifact(lab, "called", kind="model", runs=[edge(start)])
    register_artifact(lab, "alone", kind="model", facts={"note": "bert-base"})
    assert look(base_model="bert-base") == ["called", "said", "tagged", "tuned"]
    assert look(base_model=base.digest) == ["tuned"]
    assert look(base_model="gpt") == []


def test_data_family(lab: SmallLab, look: Look) -> None:
    cats = register_artifact(lab, "cat-photos", kind="dataset")
    knows = trained_model(lab, "a.pt", data="cats-2025")
    trained_model(lab, "b.pt", data="dogs")
    trained_model(lab, "c.pt", tags={"task": "cat detection"})
    register_artifact(lab, "cat.log", kind="log")
    run = knows.run_edges.get().run
    register_rows(lab, row("cat-photos", kind="dataset", runs=[edge(run, "used")]))
    run_jobs()
    assert look(data="cats") == ["a.pt", "c.pt", "cat-photos"]
    assert look(data="cat boxes") == []
    assert look(data=cats.digest) == ["a.pt", "cat-photos"]
    assert look(data=digest("nothing")) == []
    with pytest.raises(InvalidInput, match="no significant word"):
        look(data="train 2024")


def test_metric_licence_size_and_medium(lab: SmallLab, look: Look) -> None:
    trained_model(
        lab, "good", metrics={"val_acc": 0.9, "val_loss": 0.3}, licence="Apache-2.0", bytes=10
    )
    trained_model(
        lab, "better", metrics={"val_acc": 0.95, "val_loss": 0.4}, licence="MIT", bytes=20
    )
    trained_model(lab, "unmeasured", bytes=30)
    Copy.objects.filter(path="/m/better").update(medium="ssd")
    Copy.objects.filter(path="/m/unmeasured").update(medium="ssd", state="missing")
    assert look(metric="val_acc") == ["better", "good"]
    assert look(metric="val_acc", metric_min="0.95") == ["better"]
    assert look(metric="val_acc", metric_max="0.9") == ["good"]
    assert look(metric="val_acc", metric_min="0.91", metric_max="0.94") == []
    assert look(metric="f1") == []
    assert look(licence="apache") == ["good"]
    assert look(licence="~none") == ["unmeasured"]
    assert look(bytes_min="20", bytes_max="29 B") == ["better"]
    assert look(medium="ssd") == ["better"]
    assert look(metric="val_acc", licence="mit", bytes_min="1", medium="ssd") == ["better"]


def test_the_best_of_a_metric_comes_first_whichever_way_is_better(lab: SmallLab) -> None:
    for name, acc, loss in (("a", 0.5, 0.1), ("b", 0.7, 0.3), ("c", 0.6, 0.2)):
        trained_model(lab, name, metrics={"acc": acc, "loss": loss})

    def order(metric: str, *, best_first: bool = True) -> list[str]:
        search = parse_search({"metric": metric})
        numbers = rank_by_metric(
            lab.lab, ArtifactFilter(), search, best_first=best_first
        ).values_list("pk", flat=True)
        return [Artifact.objects.get(pk=number).name for number in numbers]

    assert order("acc") == ["b", "c", "a"]
    assert order("loss") == ["a", "c", "b"]
    assert order("loss", best_first=False) == ["b", "c", "a"]


def test_of_several_runs_the_best_within_the_bounds_counts(lab: SmallLab) -> None:
    made = trained_model(lab, "twice", metrics={"acc": 0.5})
    trained_model(lab, "other", metrics={"acc": 0.6})
    other = Artifact.objects.get(name="other").run_edges.get().run
    register_rows(lab, row("twice", kind="model", runs=[edge(other)]))

    def values(**bounds: str) -> dict[int, float]:
        return metric_values([made.pk], parse_search({"metric": "acc", **bounds}))

    assert values() == {made.pk: 0.6}
    assert values(metric_max="0.55") == {made.pk: 0.5}
    assert metric_values([made.pk], Search()) == {}


def test_an_artifact_with_several_digests_is_found_once(lab: SmallLab) -> None:
    register_artifact(
        lab, "m", aliases={"md5": "a" * 32, "xxh128": "b" * 32}, payload=digest("payload")
    )
    for text in (digest("m")[:12], digest("m"), "a" * 32, "b" * 32, digest("payload")[:9]):
        assert search_artifacts(lab.lab, ArtifactFilter(text=text), Search()).count() == 1, text


def test_what_many_have_the_name_of_is_found_by_where_it_lies(lab: SmallLab) -> None:
    register_artifact(
        lab, "weights.pt", copies=at_paths("/data/Speech/model-7/weights.pt", "/backup/x.pt")
    )
    gone = register_artifact(lab, "other.pt", copies=at_paths("/data/speech/deadbeef01/other.pt"))
    Copy.objects.filter(artifact=gone).update(state=CopyState.DELETED)
    register_artifact(lab, "third.pt", copies=at_paths("/data/vision/100%/third.pt"))
    found = {
        "speech/model-7": 1,
        "speech": 2,
        "deadbeef01": 1,
        "BACKUP": 1,
        "100%": 1,
        "s_eech": 0,
        "/nowhere": 0,
    }
    for text, count in found.items():
        assert search_artifacts(lab.lab, ArtifactFilter(text=text), Search()).count() == count, text
    other = small_lab(name="Elsewhere").lab
    assert search_artifacts(other, ArtifactFilter(text="speech"), Search()).count() == 0


def test_labs_are_apart(lab: SmallLab) -> None:
    trained_model(
        lab,
        "ours.pt",
        data="cats",
        metrics={"acc": 0.5},
        licence="MIT",
        facts={"base_model": "bert"},
    )
    run_jobs()
    other = small_lab(name="Other").lab
    for params in (
        {"architecture": "resnet18"},
        {"base_model": "bert"},
        {"data": "cats"},
        {"metric": "acc"},
        {"licence": "mit"},
        {"medium": "hdd"},
        {"data": digest("ours.pt")},
    ):
        assert not search_artifacts(other, ArtifactFilter(), parse_search(params)).exists(), params
        if params != {"data": digest("ours.pt")}:
            assert search_artifacts(lab.lab, ArtifactFilter(), parse_search(params)).count() == 1, (
                params
            )
