"""Fingerprints as they are stored: merged, keyed, and the same however often they are told."""

import random

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from labcarbon_collect.lc1 import param_hash

from apps.runs.choices import Tier
from apps.runs.code_similarity import (
    bands_of,
    jaccard,
    minimum_similarity,
    pack_lines,
    unpack_lines,
)
from apps.runs.match_keys import tier_keys
from apps.runs.models import CodeState, Fingerprint, IgnoredParameter, MinHashBand, TierKey
from apps.runs.selectors import find_similar_code_runs
from apps.runs.services.fingerprints import fingerprint_from_params, parts_of, put_fingerprint
from tests.builders import small_lab
from tests.runs.fingerprints import a_run, hex64, parsed

pytestmark = pytest.mark.django_db


def stored(run: object) -> set[tuple[int, int]]:
    return set(TierKey.objects.filter(run=run).values_list("tier", "key"))  # type: ignore[misc]


def test_all_keys_are_stored_and_found_again() -> None:
    run = a_run(small_lab().lab)
    row = put_fingerprint(run=run, payload=parsed())
    fresh = Fingerprint.objects.get(run=run)
    assert stored(run) == {
        (tier.value, key) for tier, key in tier_keys(parts_of(fresh, ignored=()))
    }
    assert len(stored(run)) == 12 + 2 * 4  # three parameters, and all of them
    assert row.recipe == fresh.recipe != ""


def test_told_twice_is_told_once() -> None:
    run = a_run(small_lab().lab)
    put_fingerprint(run=run, payload=parsed())
    before = list(TierKey.objects.order_by("pk").values_list())
    put_fingerprint(run=run, payload=parsed())
    assert list(TierKey.objects.order_by("pk").values_list()) == before


def test_what_was_known_stays_known() -> None:
    run = a_run(small_lab().lab)
    put_fingerprint(run=run, payload=parsed())
    before = stored(run)
    put_fingerprint(
        run=run, payload=parsed(code=None, params=None, data=None, start=None, seeds=None, entry="")
    )
    assert stored(run) == before


def test_data_becomes_better_known() -> None:
    run = a_run(small_lab().lab)
    put_fingerprint(run=run, payload=parsed(data={"weak": hex64("stat")}))
    assert Tier.F1.value not in {tier for tier, _ in stored(run)}
    put_fingerprint(run=run, payload=parsed(data={"verified": hex64("content")}))
    row = Fingerprint.objects.get(run=run)
    assert (row.data, row.data_weak) == (hex64("content"), hex64("stat"))
    assert {Tier.F1.value, Tier.F1_WEAK.value} <= {tier for tier, _ in stored(run)}


def test_a_digest_of_other_data_is_not_kept() -> None:
    run = a_run(small_lab().lab)
    put_fingerprint(run=run, payload=parsed())
    put_fingerprint(run=run, payload=parsed(data={"weak": hex64("changed since")}))
    row = Fingerprint.objects.get(run=run)
    assert (row.data, row.data_weak) == ("", hex64("changed since"))


def test_other_code_takes_the_normal_form_of_the_old_with_it() -> None:
    run = a_run(small_lab().lab)
    put_fingerprint(run=run, payload=parsed())
    put_fingerprint(run=run, payload=parsed(code={"hash": hex64("other")}))
    row = Fingerprint.objects.get(run=run)
    assert (row.code, row.code_normal, row.commit) == (hex64("other"), "", "")


def test_no_seed_and_not_known_are_two_things() -> None:
    lab = small_lab().lab
    unset, unknown = a_run(lab), a_run(lab)
    put_fingerprint(run=unset, payload=parsed(seeds={}))
    put_fingerprint(run=unknown, payload=parsed(seeds=None))
    assert Fingerprint.objects.get(run=unset).seeds == {}
    assert Fingerprint.objects.get(run=unknown).seeds is None


def test_parameters_of_the_api_are_the_recipe_and_nothing_else() -> None:
    found = fingerprint_from_params(
        {"--learning-rate": "1e-1", "seed": 3, "output_dir": "/tmp/x", "epochs": 10}
    )
    same = fingerprint_from_params({"lr": 0.1, "random_state": "3", "num_epochs": "10"})
    assert found.params == same.params
    assert found.seeds == same.seeds
    assert (found.dropped, found.code, found.data) == (
        {"output_dir": param_hash("output_dir", "/tmp/x")},
        None,
        None,
    )
    assert found.told == {"lr": 0.1, "epochs": 10, "seed": 3}
    assert fingerprint_from_params({"lr": 1}).seeds is None


def test_a_project_leaves_out_what_it_ignores() -> None:
    small = small_lab()
    project = small.lab.projects.get(slug="demo")
    IgnoredParameter.objects.create(project=project, name="lr", since_us=0)
    ours, elsewhere = a_run(small.lab, project=project), a_run(small.lab)
    put_fingerprint(run=ours, payload=parsed())
    put_fingerprint(run=elsewhere, payload=parsed())
    assert Fingerprint.objects.get(run=ours).recipe != Fingerprint.objects.get(run=elsewhere).recipe


def lines(count: int, *, seed: int = 1) -> list[str]:
    chance = random.Random(seed)
    return [f"{chance.getrandbits(32):08x}" for _ in range(count)]


def test_each_code_text_is_kept_once_with_its_bands() -> None:
    lab = small_lab().lab
    code = {"hash": hex64("c"), "normal": hex64("n"), "shingles": lines(50)}
    for _ in range(2):
        put_fingerprint(run=a_run(lab), payload=parsed(code=code))
    text = CodeState.objects.get()
    assert unpack_lines(text.shingles) == {int(each, 16) for each in lines(50)}
    assert list(MinHashBand.objects.order_by("pk").values_list("band", flat=True)) == bands_of(
        unpack_lines(text.shingles)
    )


def test_code_without_lines_is_like_nothing() -> None:
    put_fingerprint(run=a_run(small_lab().lab), payload=parsed())
    assert not CodeState.objects.exists()


def test_alike_texts_share_a_band_and_others_do_not() -> None:
    one = [int(each, 16) for each in lines(400)]
    alike, other = [*one[:-5], 1, 2, 3, 4, 5], [int(each, 16) for each in lines(400, seed=2)]
    assert jaccard(one, alike) > 0.95
    assert set(bands_of(one)) & set(bands_of(alike))
    assert not set(bands_of(one)) & set(bands_of(other))
    assert unpack_lines(pack_lines([1, 2**32 - 1])) == {1, 2**32 - 1}
    assert pack_lines([1]) == b"\x00\x00\x00\x01"


def test_bands_do_not_change_with_the_library() -> None:
    """Stored bands are compared with new ones: if these numbers change, all of them have to be
    written again.
    """
    assert bands_of([1, 2, 3])[:2] == [8954718408814420681, 3824077539532603858]


def test_the_cost_does_not_depend_on_how_many_parameters_there_are() -> None:
    lab = small_lab().lab

    def statements(count: int) -> int:
        run = a_run(lab)
        with CaptureQueriesContext(connection) as counted:
            put_fingerprint(
                run=run, payload=fingerprint_from_params({f"p{i}": i for i in range(count)})
            )
        return len(counted)

    assert statements(2) == statements(50)


def _code(name: str, told: list[str]) -> dict[str, object]:
    return {"hash": hex64(name), "normal": hex64(f"{name} normal"), "shingles": told}


def test_code_that_is_nearly_the_same_is_found_in_the_family() -> None:
    lab, all_lines = small_lab().lab, lines(400)
    elsewhere = small_lab(name="Elsewhere").lab
    ours, near, far, other = (a_run(lab) for _ in range(4))
    put_fingerprint(run=ours, payload=parsed(code=_code("a", all_lines)))
    put_fingerprint(run=near, payload=parsed(code=_code("b", [*all_lines[:-4], *lines(4, seed=9)])))
    put_fingerprint(
        run=far, payload=parsed(code=_code("c", [*all_lines[:300], *lines(100, seed=8)]))
    )
    put_fingerprint(run=other, payload=parsed(code=_code("b", []), entry=hex64("eval.py")))
    put_fingerprint(
        run=a_run(elsewhere), payload=parsed(code=_code("b", [*all_lines[:-4], *lines(4, seed=9)]))
    )
    found = find_similar_code_runs(ours, hex64("a normal"))
    assert found is not None
    assert (found.runs, found.newest) == (1, near.uuid)
    assert found.min_similarity == 396 / 404
    assert find_similar_code_runs(far, hex64("c normal")) is None
    assert find_similar_code_runs(ours, "") is None
    assert minimum_similarity(lab, [hex64("a normal"), hex64("c normal")]) == 300 / 500
    assert minimum_similarity(lab, [hex64("a normal"), hex64("not known")]) is None
