"""/artifacts/<digest>/card.md: what the Hub would read of it, whatever anybody wrote."""

import re
from typing import Any
from uuid import UUID

import pytest
import yaml
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from apps.dashboard.artifacts.model_card import _escape, _one_line
from apps.runs.metric_parsing import Point
from apps.runs.models import Run
from apps.runs.services.fingerprints import put_fingerprint
from apps.runs.services.metrics import add_points
from tests.artifacts.support import create_run, digest, edge, register_artifact, register_rows, row
from tests.builders import T0, SmallLab
from tests.dashboard.support import (
    HOSTILE,
    assert_needs_sign_in,
    assert_only,
    figures_on,
    text_of,
    use,
)
from tests.runs.fingerprints import parsed

# As the Hub finds the head: https://github.com/huggingface/huggingface_hub, REGEX_YAML_BLOCK.
_HEAD = re.compile(r"^(\s*---[\r\n]+)([\S\s]*?)([\r\n]+---(\r\n|\r|\n|$))")


def card(client: Client, name: str) -> tuple[dict[str, Any], str]:
    """Return head and text of a card."""
    reply = client.get(f"/artifacts/{digest(name)}/card.md")
    assert reply.status_code == 200
    assert reply["Content-Type"] == "text/markdown; charset=utf-8"
    text = text_of(reply)
    head = _HEAD.match(text)
    assert head
    return yaml.safe_load(head[2]) or {}, text[head.end() :]


def test_what_the_hub_reads(lab: SmallLab, owner: Client) -> None:
    first, second = use(lab, runs=2)
    add_points(
        lab=lab.lab,
        uuid=second,
        points={"val_acc": [Point(1, T0, 0.875)]},
        bound_node=None,
        now=None,
    )
    register_rows(
        lab,
        row("cats", kind="dataset", runs=[edge(first, "used"), edge(second, "used")]),
        row("base", kind="model", runs=[edge(first), edge(second, "initialised_from")]),
        row(
            "tuned",
            kind="model",
            licence="Apache 2.0",
            tags={"task": "cats"},
            facts={"parameters": 25_557_032},
            runs=[edge(second)],
        ),
    )
    head, text = card(owner, "tuned")
    page = text_of(owner.get(f"/artifacts/{digest('tuned')}/"))
    emission_ug = next(
        value
        for query, value in figures_on(page)
        if f"run%3A{second}" in query and "emission_ug" in query
    )
    assert head.pop("co2_eq_emissions") == {
        "emissions": round(emission_ug / 1e6, 3),
        "source": "LabCarbon: metered energy × PUE × grid factor, location-based",
        "training_type": "fine-tuning",
        "geographical_location": "Germany",
        "hardware_used": "1 × GPU",
    }
    assert head == {
        "license": "apache-2.0",
        "tags": ["task:cats"],
        "base_model": "base",
        "datasets": ["cats"],
        "metrics": ["val_acc"],
    }
    assert "- parameters: 25\u202f557\u202f032" in text
    assert "| val\\_acc | 0.875 |" in text
    assert "- Training: 1.67 Wh" in text
    assert "Including all upstream runs (2, of which 0 not measured): 3.33 Wh" in text


def test_from_scratch(lab: SmallLab, owner: Client) -> None:
    (run,) = use(lab)
    put_fingerprint(
        run=Run.objects.get(uuid=run),
        payload=parsed(start={"verified": "a" * 64, "name": "scratch"}),
    )
    register_rows(lab, row("m", runs=[edge(run)]))
    assert card(owner, "m")[0]["co2_eq_emissions"]["training_type"] == "pre-training"


def test_what_is_not_known_is_left_out_and_said(lab: SmallLab, owner: Client) -> None:
    register_rows(
        lab, row("alone"), row("unmeasured", licence="Ours alone", runs=[edge(create_run(lab))])
    )
    head, text = card(owner, "alone")
    assert head == {}
    assert "Unknown: no producing run was reported." in text
    head, text = card(owner, "unmeasured")
    assert head == {"license": "other", "license_name": "Ours alone"}
    assert "This does not mean zero emissions" in text


def test_part_of_it_is_a_lower_bound(lab: SmallLab, owner: Client) -> None:
    (run,) = use(lab)
    register_rows(lab, row("m", runs=[edge(run), edge(create_run(lab))]))
    head, text = card(owner, "m")
    assert "a lower bound" in head["co2_eq_emissions"]["source"]
    assert "(2, of which 1 not measured): at least" in text


BREAKS = (
    "a\n---\nlicense: mit",
    "---",
    "a: b",
    "!!python/object/apply:os.system [ls]",
    "*x",
    "&x y",
    "{a: [",
    "'",
    '"',
    "- x\n- y",
    "\u2028---\u2028",
    "\x85---",
    "\r---\r",
    "yes",
    "null",
    "1e3",
    "#",
    "| x |",
    HOSTILE,
    "[a](javascript:alert(1))",
    "\x1b[2J",
)


def test_hostile_words_break_out_of_nothing(
    lab: SmallLab, owner: Client, subtests: pytest.Subtests
) -> None:
    for run, words in zip(use(lab, runs=len(BREAKS)), BREAKS, strict=True):
        with subtests.test(words):
            _breaks_out_of_nothing(lab, owner, run, words)


def _breaks_out_of_nothing(lab: SmallLab, owner: Client, run: UUID, words: str) -> None:
    add_points(
        lab=lab.lab, uuid=run, points={words[:100]: [Point(1, T0, 0.5)]}, bound_node=None, now=None
    )
    register_rows(lab, row("in" + words, kind="dataset", runs=[edge(run, "used")]))
    name = words
    register_rows(
        lab,
        row(
            name,
            licence=words[:100],
            tags={words[:100]: words},
            facts={words[:100]: words},
            runs=[edge(run)],
        ),
    )
    head, text = card(owner, name)
    assert set(head) <= {
        "license",
        "license_name",
        "tags",
        "datasets",
        "metrics",
        "co2_eq_emissions",
    }
    plain = " ".join("".join(letter if letter.isprintable() else " " for letter in words).split())
    assert head["datasets"] == [
        f"in{plain}" if words[:1].isprintable() and not words[:1].isspace() else f"in {plain}"
    ]
    assert head["license"] in ("other", "mit")
    assert "---" not in text.splitlines()
    assert "<script" not in text
    assert "<img" not in text
    assert not re.search(r"(?<!\\)\]\(javascript", text)


@given(st.text(max_size=60))
def test_any_text_is_one_line(text: str) -> None:
    assert len(_one_line(text).splitlines()) <= 1
    assert "<" not in _escape(text)
    if plain := _one_line(text):
        dumped = yaml.safe_dump({"a": [plain]}, allow_unicode=True, width=10**6)
        assert yaml.safe_load(dumped) == {"a": [plain]}
        assert not any(line.startswith("---") for line in dumped.splitlines())


def test_the_questions_every_page_is_asked(
    lab: SmallLab, owner: Client, viewer: Client, outsider: Client
) -> None:
    register_artifact(lab, "m")
    address = f"/artifacts/{digest('m')}/card.md"
    assert_needs_sign_in(address)
    assert_only(owner, address, "GET")
    assert viewer.get(address).status_code == 200
    assert outsider.get(address).status_code == 404
    assert 'filename="m-card.md"' in owner.get(address)["Content-Disposition"]
