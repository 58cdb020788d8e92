"""A fingerprint as it comes over the wire: what is taken, and one sentence for each thing that
is wrong.
"""

from typing import Any

import pytest

from apps.core.errors import InvalidInput
from apps.runs.fingerprint_parsing import parse_fingerprint
from tests.runs.fingerprints import hex64, told


def test_everything_that_the_contract_names_is_taken() -> None:
    found = parse_fingerprint(told())
    assert found.code is not None
    assert found.code.hash == hex64("code")
    assert found.data is not None
    assert found.data.items[0].files == 812


def test_all_but_the_version_may_be_left_out() -> None:
    found = parse_fingerprint({"version": "lc1"})
    assert (found.entry, found.code, found.params, found.seeds, found.data) == (
        "",
        None,
        None,
        None,
        None,
    )


def test_no_seeds_are_unset_and_not_unknown() -> None:
    assert parse_fingerprint({"version": "lc1", "seeds": {}}).seeds == {}


def test_code_that_is_called_weak_is_never_taken_for_verified() -> None:
    found = parse_fingerprint(told(code={"state": "weak", "hash": hex64("code")}))
    assert found.code is not None
    assert (found.code.hash, found.code.weak) == ("", hex64("code"))


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ({"version": "lc3"}, "version", "supported: lc1 and lc2"),
        ({"version": 1}, "version", "str"),
        ({"entry": "abc"}, "entry", "64 hex digits"),
        ({"entry": hex64("a").upper()}, "entry", "small letters"),
        ({"colour": 1}, "colour", "Unknown key"),
        ({"code": {"hush": "x"}}, "code.hush", "Unknown key"),
        ({"code": {"state": "verified"}}, "code.hash", "no 'hash'"),
        ({"code": {"state": "weak"}}, "code.weak", "no 'weak'"),
        ({"code": {"state": "unknown", "hash": hex64("a")}}, "code.state", "there is a hash"),
        (
            {"code": {"state": "sure", "hash": hex64("a")}},
            "code.state",
            "verified, weak or unknown",
        ),
        ({"code": {"commit": "main"}}, "code.commit", "40 or 64 hex"),
        ({"code": {"shingles": ["xyz"]}}, "code.shingles[0]", "8 hex digits"),
        ({"code": {"shingles": ["00000000"] * 20_001}}, "code.shingles", "20000"),
        ({"params": {"lr": 0.1}}, "params[...]", "str"),
        ({"params": {"lr": "0.1"}}, "params[...]", "32 hex digits"),
        ({"params": {f"p{i}": "0" * 32 for i in range(501)}}, "params", "500"),
        ({"told": {"text": "x" * 70_000}}, "told", "65536"),
        ({"told": {"text": "a\x00"}}, "", "NUL"),
        ({"told": {"deep": [[[[[[[[[1]]]]]]]]]}}, "", "nested"),
        ({"told": {"lr": float("inf")}}, "", "beyond"),
        ({"data": {"weak": 5}}, "data.weak", "str"),
        ({"data": {"items": [{"files": -1}]}}, "data.items[0].files", "0"),
        ({"data": {"items": [{"bytes": 2**63}]}}, "data.items[0].bytes", "9223372036854775807"),
        ({"start": {"name": "n" * 256}}, "start.name", "255"),
        ({"seeds": {"seed": 1}}, "seeds[...]", "str"),
        ({"environment": {"python": 3}}, "environment[...]", "str"),
        ({"intent": "fun"}, "intent", "fun"),
        ({"sweep": "s" * 101}, "sweep", "100"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(InvalidInput) as found:
        parse_fingerprint(told(**change))
    assert found.value.field == f"fingerprint.{field}".rstrip(".")
    assert says in found.value.message


@pytest.mark.parametrize("value", [None, 5, "lc1", [], {}])
def test_something_else_altogether(value: Any) -> None:
    with pytest.raises(InvalidInput):
        parse_fingerprint(value)
