"""Keys of tiers: what is the same has the same key, what is unknown has none."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from labcarbon_collect.lc1 import param_hash

from apps.runs.choices import Tier
from apps.runs.match_keys import tier_keys
from apps.runs.services.fingerprints import parts_from_payload
from tests.runs.fingerprints import hex64, parsed

ALL = set(Tier)
CODE_PARAMS = {Tier.CODE_PARAMS, Tier.CODE_PARAMS_WEAK}  # without data and start
WEAK = {tier for tier in Tier if tier % 5 == 1}


def keys(**changes: Any) -> dict[Tier, set[int]]:
    found: dict[Tier, set[int]] = {}
    for tier, key in tier_keys(
        parts_from_payload(parsed(**changes), ignored=changes.pop("ignored", ()))
    ):
        found.setdefault(tier, set()).add(key)
    return found


def shared(one: dict[Tier, set[int]], other: dict[Tier, set[int]]) -> set[Tier]:
    return {tier for tier in Tier if one.get(tier, set()) & other.get(tier, set())}


def test_the_same_work_shares_every_key() -> None:
    assert shared(keys(), keys()) == ALL


def test_keys_fit_the_database() -> None:
    assert all(0 <= key < 2**63 for each in keys().values() for key in each)


def test_another_seed_leaves_the_recipe() -> None:
    other = keys(seeds={"seed": param_hash("seed", 2)})
    assert shared(keys(), other) == {
        Tier.F2,
        Tier.F2_WEAK,
        Tier.F3,
        Tier.F3_WEAK,
        Tier.F4,
        Tier.F4_WEAK,
        *CODE_PARAMS,
    }


def test_another_entry_leaves_the_recipe() -> None:
    assert shared(keys(), keys(entry=hex64("train_vit.py"))) == {Tier.F3, Tier.F3_WEAK}


def test_unset_seeds_match_unset_seeds_and_unknown_ones_nothing() -> None:
    assert Tier.F1 in shared(keys(seeds={}), keys(seeds={}))
    assert Tier.F1 not in keys(seeds=None)
    assert Tier.F2 in keys(seeds=None)


def test_other_code_leaves_the_recipe() -> None:
    other = keys(code={"hash": hex64("other"), "normal": hex64("other normal")})
    f3 = {Tier.F3, Tier.F3_WEAK, Tier.F4, Tier.F4_WEAK, Tier.LEFT_OUT, Tier.LEFT_OUT_WEAK}
    assert shared(keys(), other) == f3


def test_comments_leave_the_normal_form() -> None:
    other = keys(code={"hash": hex64("commented"), "normal": hex64("normal")})
    assert {Tier.F1_NORMAL, Tier.F1_NORMAL_WEAK} <= shared(keys(), other)
    assert Tier.F1 not in shared(keys(), other)


def test_code_told_by_its_commit_alone_is_the_same_only_possibly() -> None:
    commit = {"weak": hex64("commit")}
    assert shared(keys(code=commit), keys(code=commit)) & {Tier.F1, Tier.F1_WEAK, Tier.F2} == {
        Tier.F1_WEAK
    }


def test_data_known_by_names_and_sizes_is_the_same_only_possibly() -> None:
    weak = keys(data={"weak": hex64("stat")})
    assert set(weak) == WEAK | CODE_PARAMS
    assert shared(weak, keys()) == WEAK | CODE_PARAMS
    assert shared(weak, keys(data={"weak": hex64("stat2")})) == CODE_PARAMS


def test_data_on_two_machines_is_the_same_by_its_content() -> None:
    there = keys(data={"weak": hex64("other times"), "verified": hex64("content")})
    assert shared(keys(), there) == (ALL - WEAK) | CODE_PARAMS


def test_data_known_by_content_alone_has_a_weak_key_as_well() -> None:
    only = {"verified": hex64("content")}
    assert shared(keys(data=only), keys(data=only)) == ALL


def test_unknown_parts_match_nothing() -> None:
    assert set(keys(data=None)) == CODE_PARAMS
    assert set(keys(start=None)) == CODE_PARAMS
    assert set(keys(params=None)) == {Tier.F4, Tier.F4_WEAK}
    assert set(keys(code=None)) == {
        Tier.F3,
        Tier.F3_WEAK,
        Tier.F4,
        Tier.F4_WEAK,
        Tier.LEFT_OUT,
        Tier.LEFT_OUT_WEAK,
    }
    assert set(keys(entry="")) == {Tier.F3, Tier.F3_WEAK}


values = st.one_of(st.integers(0, 3), st.text(max_size=2), st.booleans())
params = st.dictionaries(st.sampled_from("abcdef"), values, max_size=6)


def hashes(given_: dict[str, Any]) -> dict[str, str]:
    return {name: param_hash(name, value) for name, value in given_.items()}


@given(params, params)
def test_left_out_keys_meet_exactly_where_one_parameter_differs_at_most(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    """Also where one run has a parameter more. Two that have each one parameter that the other
    has not differ in two names, and are found as well: what is found is looked at whole.
    """
    a, b = hashes(one), hashes(other)
    only_a, only_b = set(a.items()) - set(b.items()), set(b.items()) - set(a.items())
    meet = Tier.LEFT_OUT in shared(keys(params=a), keys(params=b))
    assert meet == (len(only_a) <= 1 and len(only_b) <= 1)


def test_an_ignored_parameter_is_no_difference() -> None:
    one, other = (
        parsed(params=hashes({"lr": 1, "note": 1})),
        parsed(params=hashes({"lr": 1, "note": 2})),
    )
    assert not shared_f1(one, other, ())
    assert shared_f1(one, other, {"note"})


def shared_f1(one: Any, other: Any, ignored: Any) -> bool:
    a, b = (dict(tier_keys(parts_from_payload(each, ignored=ignored))) for each in (one, other))
    return a[Tier.F1] == b[Tier.F1]


def test_the_left_out_keys_of_a_family_lie_side_by_side() -> None:
    """31 bits are the family's: what is registered touches a page of the index for a family, not
    one for each parameter.
    """
    many = keys(params=hashes({f"p{i}": i for i in range(20)}))[Tier.LEFT_OUT]
    assert len(many) == 21
    assert len({key >> 32 for key in many}) == 1
    of_another_seed = keys(params=hashes({"a": 1}), seeds={"seed": param_hash("seed", 2)})[
        Tier.LEFT_OUT
    ]
    assert {key >> 32 for key in many}.isdisjoint({key >> 32 for key in of_another_seed})
