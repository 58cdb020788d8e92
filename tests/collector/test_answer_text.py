"""The server's answer in a terminal: every figure, no control characters, at most 100 columns."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from labcarbon_collect.answer_text import WIDTH, lines
from labcarbon_collect.preflight import LEVELS, VERDICTS, read_answer

from tests.collector.asking import DUPLICATE, MATCH

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=200),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


def text(**changes: Any) -> str:
    return "\n".join(lines(read_answer("http://server", {**DUPLICATE, **changes})))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(VERDICTS)), st.sampled_from(LEVELS), st.text(max_size=600),
    st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(MATCH, JSON)), max_size=5),
    st.fixed_dictionaries({}, optional=dict.fromkeys(DUPLICATE["estimate"], JSON)),  # type: ignore[union-attr]
)  # fmt: skip
def test_whatever_the_server_sends_is_printable_and_narrow(
    verdict: str, level: str, message: str, matches: list[Any], estimate: Any
) -> None:
    body = {**DUPLICATE, "verdict": verdict, "level": level, "message": message, "matches": matches, "estimate": estimate}
    for line in lines(read_answer("http://server", body)):
        assert line.isprintable()
        assert len(line) <= WIDTH or line.startswith("    ")  # an address is never broken


def test_an_address_alone_is_longer_than_the_width() -> None:
    long = "https://lab.example.org/" + "x" * 200
    found = text(matches=[{**MATCH, "url": long, "who": "Ben " * 60}]).splitlines()
    assert [line.strip() for line in found if len(line) > WIDTH] == [long]


def test_differences_failures_and_what_is_not_certain_are_said() -> None:
    differs = [
        {"part": "params", "name": "lr", "here": 0.1, "there": 0.2},
        {"part": "code", "name": None, "here": None, "there": None},
        {"part": "params", "name": "depth", "here": 3, "there": None},
    ]  # fmt: skip
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
    assert "differs: lr 0.1 here, 0.2 there; code; depth 3 here, not told there" in found
    assert "it failed: cuda_memory: CUDA out of memory" in found
    assert "not certain: start known by names, sizes and times only" in found


def test_many_matches_are_counted_and_unknown_is_not_nought() -> None:
    found = text(matches=[{**MATCH, "energy_mj": None, "emission_ug": None, "metric": None}] * 5, estimate=None)
    assert found.count("energy not measured") == 3
    assert "and 2 more like these" in found
    assert "kg" not in found
    assert " 0 kWh" in text(matches=[{**MATCH, "energy_mj": 0}])


def test_colour_is_for_terminals_only() -> None:
    answer = read_answer("http://server", DUPLICATE)
    assert "\x1b[31;1m" in lines(answer, colour=True)[0]
    assert "\x1b" not in "".join(lines(answer))


def test_a_name_cannot_repaint_the_terminal() -> None:
    assert "\x1b" not in text(message="\x1b[2J" + "x", matches=[{**MATCH, "who": "\x1b]0;owned\x07", "host": "a\nb"}])


OFFER = {
    "digest": "a" * 64, "name": "cats.safetensors", "url": "http://server/artifacts/aaaa/", "licence": "Apache-2.0",
    "why": "data of a like name (cat)", "who": "ada", "bytes": 98_000_000, "metric": {"name": "val/acc", "value": 0.914},
    "energy_mj": 7_200_000_000, "emission_ug": 5,
}  # fmt: skip
NONE = {"verdict": "none", "level": "silent", "message": "", "matches": [], "estimate": None}


def test_what_may_be_adapted_is_told_with_what_it_spares() -> None:
    assert text(**NONE, reuse=[OFFER]).splitlines() == [
        "labcarbon: nothing like this was run before, but you may adapt what is there instead of training",
        "  anew:",
        "  - cats.safetensors, 98 MB, Apache-2.0: data of a like name (cat)",
        "    val/acc 0.914 · made by ada · 2.00 kWh that need not be spent again",
        "    http://server/artifacts/aaaa/",
    ]
    unknown = text(**NONE, reuse=[{**OFFER, "energy_mj": None, "licence": None, "metric": None, "who": None}])
    assert "licence not told" in unknown
    assert unknown.splitlines()[3] == "    energy not measured"
    assert text(**NONE) == ""


@settings(max_examples=40, deadline=None)
@given(st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(OFFER, JSON)), max_size=5))
def test_whatever_is_offered_is_printable_and_narrow(offers: list[Any]) -> None:
    for line in lines(read_answer("http://server", {**DUPLICATE, **NONE, "reuse": offers})):
        assert line.isprintable()
        assert len(line) <= WIDTH or line.startswith("    ")


def test_small_figures_have_small_units_and_one_run_is_no_range() -> None:
    found = text(
        matches=[{**MATCH, "energy_mj": 4_428, "emission_ug": 1_460}],
        estimate={"runs": 1, "energy_mj": 4_428_000, "low_mj": 4_428_000, "high_mj": 4_428_000, "emission_ug": 1_460_000},
    )
    assert "1.23 mWh · 1.46 mg CO2e" in found
    assert "By 1 run like it, it takes about 1.23 Wh, 1.46 g CO2e." in " ".join(found.split())
