"""The response in a terminal: every figure, no control characters, at most 100 columns."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from labcarbon_collect.api.preflight import LEVELS, VERDICTS, parse_response
from labcarbon_collect.runs.preflight_text import WIDTH, format_response

from tests.collector.preflight_responses import DUPLICATE, MATCH

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=200),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3)
    ),
    max_leaves=8,
)


def text(**changes: Any) -> str:
    return "\n".join(format_response(parse_response("http://server", {**DUPLICATE, **changes})))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(VERDICTS)),
    st.sampled_from(LEVELS),
    st.text(max_size=600),
    st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(MATCH, JSON)), max_size=5),
    st.fixed_dictionaries({}, optional=dict.fromkeys(DUPLICATE["estimate"], JSON)),  # type: ignore[union-attr]
)
def test_whatever_the_server_sends_is_printable_and_narrow(
    verdict: str, level: str, message: str, matches: list[Any], estimate: Any
) -> None:
    body = {
        **DUPLICATE,
        "verdict": verdict,
        "level": level,
        "message": message,
        "matches": matches,
        "estimate": estimate,
    }
    for line in format_response(parse_response("http://server", body)):
        assert line.isprintable()
        assert len(line) <= WIDTH or line.startswith("    ")  # an address is never divided


def test_an_address_alone_is_longer_than_the_width() -> None:
    long = "https://lab.example.org/" + "x" * 200
    found = text(matches=[{**MATCH, "url": long, "who": "Ben " * 60}]).splitlines()
    assert [line.strip() for line in found if len(line) > WIDTH] == [long]


def test_differences_failures_and_uncertain_parts_are_printed() -> None:
    differs = [
        {"part": "params", "name": "lr", "here": 0.1, "there": 0.2},
        {"part": "code", "name": None, "here": None, "there": None},
        {"part": "params", "name": "depth", "here": 3, "there": None},
    ]
    found = text(
        matches=[
            {
                **MATCH,
                "differs": differs,
                "failure": {"class": "cuda_memory", "text": "CUDA out of memory"},
                "weak": ["start"],
            }
        ]
    )
    assert "differs: lr 0.1 here, 0.2 there; code; depth 3 here, unknown there" in found
    assert "failure: cuda_memory: CUDA out of memory" in found
    assert "not certain: start compared by name, size and time only" in found


LABEL = {
    "part": "labels", "name": "experiment", "here": None, "there": None,
    "here_state": "not_uploaded", "there_state": "not_uploaded",
}  # fmt: skip


def label_lines(local_values: dict[str, Any], **changes: Any) -> str:
    match = {**MATCH, "differs": [{**LABEL, **changes}], "labels": ["experiment"]}
    response = parse_response("http://server", {**DUPLICATE, "matches": [match]})
    return " ".join(" ".join(format_response(response, local_values=local_values)).split())


def test_a_label_whose_values_were_not_uploaded_is_shown_with_the_local_value() -> None:
    found = label_lines({"experiment": "vit", "other": 1})
    assert "differs: experiment vit here, not uploaded there" in found
    assert "not certain: another label: experiment" in found
    assert "labcarbon-collect run --full-command" in found
    assert "differs: experiment (not uploaded)" in label_lines({})


def test_absent_invisible_and_uploaded_values_need_no_upload() -> None:
    for state, expected in (
        ("absent", "none there"),
        ("not_visible", "not visible to you there"),
        (None, "unknown there"),
    ):
        found = label_lines({"experiment": "vit"}, there_state=state)
        assert f"experiment vit here, {expected}" in found
        assert "--full-command" not in found
    found = label_lines({"experiment": "local"}, here="vit", there="resnet", there_state="uploaded")
    assert "experiment vit here, resnet there" in found
    assert "--full-command" not in found
    absent = label_lines({}, here_state="absent", there="resnet", there_state="uploaded")
    assert "experiment none here, resnet there" in absent
    code = label_lines({"code": 1}, part="code", name="code", here_state=None, there_state=None)
    assert "differs: code not certain" in code


def test_many_matches_are_counted_and_unknown_is_not_nought() -> None:
    found = text(
        matches=[{**MATCH, "energy_mj": None, "emission_ug": None, "metric": None}] * 5,
        estimate=None,
    )
    assert found.count("energy not measured") == 3
    assert "and 2 similar runs" in found
    assert "kg" not in found
    assert " 0 Wh" in text(matches=[{**MATCH, "energy_mj": 0}])


def test_colour_is_for_terminals_only() -> None:
    answer = parse_response("http://server", DUPLICATE)
    assert "\x1b[31;1m" in format_response(answer, colour=True)[0]
    assert "\x1b" not in "".join(format_response(answer))


def test_a_name_cannot_repaint_the_terminal() -> None:
    assert "\x1b" not in text(
        message="\x1b[2J" + "x", matches=[{**MATCH, "who": "\x1b]0;owned\x07", "host": "a\nb"}]
    )


OFFER = {
    "digest": "a" * 64, "name": "cats.safetensors", "url": "http://server/artifacts/aaaa/",
    "licence": "Apache-2.0", "why": "data of a like name (cat)", "who": "ada", "bytes": 98_000_000,
    "metric": {"name": "val/acc", "value": 0.914}, "energy_mj": 7_200_000_000, "emission_ug": 5,
}  # fmt: skip
NONE = {"verdict": "none", "level": "silent", "message": "", "matches": [], "estimate": None}


def test_fine_tuning_candidates_are_printed_with_their_savings() -> None:
    assert text(**NONE, reuse=[OFFER]).splitlines() == [
        (
            "labcarbon: No similar run exists, but you can fine-tune one of these models instead "
            "of training from"
        ),
        "  scratch:",
        "  - cats.safetensors, 98 MB, Apache-2.0: data of a like name (cat)",
        "    val/acc 0.914 · created by ada",
        "    saves at most 2.00 kWh, less the cost of fine-tuning",
        "    http://server/artifacts/aaaa/",
    ]
    unknown = text(
        **NONE, reuse=[{**OFFER, "energy_mj": None, "licence": None, "metric": None, "who": None}]
    )
    assert "licence unknown" in unknown
    assert unknown.splitlines()[3] == "    energy not measured"
    assert text(**NONE) == ""


WH = 3_600_000
ADAPTED = {
    **OFFER,
    "energy_mj": 4_200 * WH,
    "adapted_unmeasured": 0,
    "adapting": {
        "basis": "this",
        "runs": 3,
        "energy_mj": 90 * WH,
        "low_mj": 60 * WH,
        "high_mj": 200 * WH,
        "emission_ug": 1,
    },
    "saved": {
        "energy_mj": 4_110 * WH,
        "low_mj": 4_000 * WH,
        "high_mj": 4_140 * WH,
        "emission_ug": 1_500_000_000,
    },
    "ways": [
        {
            "way": "head",
            "runs": 2,
            "energy_mj": 60 * WH,
            "low_mj": 60 * WH,
            "high_mj": 90 * WH,
            "saved_mj": 4_140 * WH,
        },
        {
            "way": "all",
            "runs": 1,
            "energy_mj": 200 * WH,
            "low_mj": 200 * WH,
            "high_mj": 200 * WH,
            "saved_mj": 4_000 * WH,
        },
    ],
}


def saves(**changes: Any) -> str:
    found = " ".join(text(**NONE, reuse=[{**ADAPTED, **changes}]).split())
    return found[found.index("created by ada ") + 15 : found.index(" http://server")]


def test_savings_of_fine_tuning_take_two_lines() -> None:
    assert text(**NONE, reuse=[ADAPTED]).splitlines()[4:7] == [
        (
            "    saves about 4.11 of the 4.20 kWh training cost, 1.50 kg CO2e (4.00 to 4.14; 3 "
            "runs of this lab"
        ),
        "    started from it: a new head on a frozen body 60.0 Wh, fine-tuned 200 Wh)",
        "    http://server/artifacts/aaaa/",
    ]


def test_unknown_fine_tuning_figures_are_left_out() -> None:
    no_carbon = {**ADAPTED["saved"], "emission_ug": None}  # type: ignore[dict-item]
    assert "CO2e" not in saves(saved=no_carbon)
    assert saves(adapting=None, saved=None, ways=[]) == (
        "saves at most 4.20 kWh: no run of this lab has fine-tuned such a model yet"
    )
    unmeasured = {"adapting": None, "saved": None, "ways": []}
    assert saves(**unmeasured, adapted_unmeasured=2) == (
        "saves at most 4.20 kWh: 2 runs of this lab fine-tuned it, but without a measurement"
    )
    assert saves(energy_mj=None, saved=None).startswith(
        "training cost not measured; fine-tuning took 90.0 Wh (60.0 to 200; 3 runs of this lab "
        "started from it: a new"
    )
    assert saves(energy_mj=None, **unmeasured) == "energy not measured"
    not_told = [{**ADAPTED["ways"][0], "way": "not_told"}]  # type: ignore[index]
    assert saves(ways=not_told).endswith("(4.00 to 4.14; 3 runs of this lab started from it)")
    alike = {**ADAPTED["adapting"], "basis": "architecture", "runs": 1}  # type: ignore[dict-item]
    assert saves(adapting=alike, ways=[]).endswith(
        "1 run of this lab fine-tuned a model of the same architecture)"
    )


def test_fine_tuning_that_costs_more_than_training_saves_nothing() -> None:
    nothing = {"energy_mj": 0, "low_mj": 0, "high_mj": 0, "emission_ug": 0}
    assert saves(energy_mj=50 * WH, saved=nothing, ways=[]) == (
        "saves nothing: fine-tuning took 90.0 Wh (60.0 to 200), training 50.0 Wh (3 runs of "
        "this lab started from it)"
    )
    assert saves(energy_mj=70 * WH, saved={**nothing, "high_mj": 10 * WH}).startswith(
        "saves nothing in most cases: fine-tuning took"
    )


def test_an_older_server_and_invalid_figures_are_tolerated() -> None:
    at_most = "saves at most 4.20 kWh, less the cost of fine-tuning"
    older = {key: value for key, value in ADAPTED.items() if key in OFFER}
    assert at_most in text(**NONE, reuse=[older])
    took, saved = ADAPTED["adapting"], ADAPTED["saved"]
    for changes in (
        {"saved": {**saved, "energy_mj": -1}},
        {"saved": {**saved, "low_mj": 4_200 * WH}},
        {"saved": [1]},
        {"adapting": "x"},
        {"saved": {**saved, "high_mj": 4_201 * WH}},
        {"adapting": {**took, "runs": 0}},
        {"adapting": {**took, "runs": True}},
        {"adapting": {**took, "low_mj": None}},
        {"adapting": None},
        {"saved": {**saved, "energy_mj": 4_110.5 * WH}},
    ):
        assert saves(**changes) == at_most, changes
    for ways in (
        None,
        3,
        [None],
        [{}],
        [{"way": []}],
        [{"way": "newer", "energy_mj": 1}],
        [{"way": "head", "energy_mj": -1}],
    ):
        assert saves(ways=ways).endswith("3 runs of this lab started from it)"), ways
    assert "3 runs of this lab fine-tuned such a model" in saves(
        adapting={**took, "basis": ["\x1b"]}
    )


FIGURES = st.integers(-1, 10**14) | JSON


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                **dict.fromkeys(ADAPTED, JSON),
                "energy_mj": FIGURES,
                "adapting": JSON
                | st.fixed_dictionaries({}, optional=dict.fromkeys(ADAPTED["adapting"], FIGURES)),  # type: ignore[arg-type]
                "saved": JSON
                | st.fixed_dictionaries({}, optional=dict.fromkeys(ADAPTED["saved"], FIGURES)),  # type: ignore[arg-type]
                "ways": JSON
                | st.lists(
                    st.fixed_dictionaries(
                        {}, optional={"way": JSON | st.just("head"), "energy_mj": FIGURES}
                    )
                ),
            },
        ),
        max_size=5,
    )
)
def test_whatever_is_offered_is_printable_and_narrow(offers: list[Any]) -> None:
    for line in format_response(
        parse_response("http://server", {**DUPLICATE, **NONE, "reuse": offers})
    ):
        assert line.isprintable()
        assert len(line) <= WIDTH or line.startswith("    ")


def test_small_figures_have_small_units_and_one_run_is_no_range() -> None:
    found = text(
        matches=[{**MATCH, "energy_mj": 4_428, "emission_ug": 1_460}],
        estimate={
            "runs": 1,
            "energy_mj": 4_428_000,
            "low_mj": 4_428_000,
            "high_mj": 4_428_000,
            "emission_ug": 1_460_000,
        },
    )
    assert "< 0.1 Wh · < 0.1 g CO2e" in found
    assert "Estimate from 1 similar run: 1.23 Wh, 1.46 g CO2e." in " ".join(found.split())
