"""The page Planner: form, operations, memory by the formula of the lesson, cards, layers."""

import re
from html import unescape
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.catalog.choices import HardwareKind
from apps.catalog.matching import match_key
from apps.catalog.models import HardwareAlias, HardwareModel
from apps.core.units import THIN
from apps.fleet.choices import DeviceKind
from apps.fleet.models import Device, Node
from tests.builders import T0, SmallLab
from tests.dashboard.support import HOSTILE, text_of
from tests.planner.layer_tables import ALEXNET_2012, LENET

pytestmark = pytest.mark.django_db
GIB = 2**30


def add_model(name: str, memory_gib: int | None, **facts: object) -> HardwareModel:
    """Add a shipped GPU."""
    return HardwareModel.objects.create(
        kind=HardwareKind.GPU, name=name, match_key=match_key(name), vendor="NVIDIA",
        memory_mib=memory_gib and memory_gib * 1024, source="test", licence="CC0", **facts,
    )  # fmt: skip


def add_gpu(lab: SmallLab, name: str, number: int = 0, node: Node | None = None) -> None:
    """Add a GPU to a node of the lab."""
    Device.objects.create(
        lab=lab.lab, key=f"gpu:{name}-{number}", kind=DeviceKind.GPU, node=node or lab.node,
        name=name,
    )  # fmt: skip


def alexnet(**fields: object) -> dict[str, object]:
    """Return the fields of the case of the lesson."""
    return {
        "source": "layers", "layers": ALEXNET_2012.strip(), "input": "3x227x227", "batch": 128,
        "optimiser": "momentum", **fields,
    }  # fmt: skip


def values(page: str, attribute: str) -> dict[str, str]:
    """Return the exact integers of elements by the value of ``attribute``."""
    found = re.findall(rf'{attribute}="([a-z_]+)"\s+data-(?:count|bytes)="(\d+)"', page)
    return dict(found)


def test_an_empty_page_has_examples_and_no_result(owner: Client) -> None:
    response = owner.get("/planner/")
    page = text_of(response)
    assert response.status_code == 200
    assert "data-empty" in page
    assert "data-memory" not in page
    examples = [unescape(href) for href in re.findall(r'href="(/planner/\?source[^"]+)"', page)]
    assert len(examples) == 3
    for href in examples:
        example = text_of(owner.get(href))
        assert 'data-memory="lesson"' in example, href


def test_alexnet_of_the_lesson_on_cards_of_3_gib(owner: Client, lab: SmallLab) -> None:
    add_model("NVIDIA GeForce GTX 580", 3)
    add_gpu(lab, "NVIDIA GeForce GTX 580")
    place = f"{lab.node.uuid}.{match_key('NVIDIA GeForce GTX 580')}"
    page = text_of(owner.get("/planner/", alexnet(place=place)))
    counts = values(page, "data-fact")
    assert counts["parameters"] == "62378344"
    assert counts["layer_outputs"] == "1917032"
    weights, activations = 62_378_344 * 4, 128 * 1_917_032 * 2 * 4
    parts = values(page, "data-memory-part")
    assert parts["weights"] == parts["gradients"] == parts["optimiser"] == str(weights)
    assert parts["activations"] == str(activations)
    total = sum(int(part) for part in parts.values())
    assert total == (12 * (3 * weights + activations) + 5) // 10
    assert f'data-memory="lesson" data-bytes="{total}"' in page
    assumptions = values(page, "data-assumption")
    assert set(assumptions) == {"layer_outputs", "unit_constant", "margin"}
    assert 'data-lesson-verdict="borderline"' in page
    assert 'data-verdict="fits"' in page[page.index("<h1") : page.index("</h1>")]


def test_operations_of_a_training(owner: Client) -> None:
    query = {"source": "preset", "preset": "resnet18", "samples": 1000, "epochs": 3, "batch": 32}
    counts = values(text_of(owner.get("/planner/", query)), "data-fact")
    macs = 1_814_073_344
    assert counts["macs"] == str(macs)
    assert counts["flops_step"] == str(6 * macs * 32)
    assert counts["steps"] == str(3 * 32)  # 31.25 steps an epoch
    assert counts["flops_total"] == str(6 * macs * 3000)
    for fields, passes in (
        ({"trainable": "head"}, 1),
        ({"trainable": "lora"}, 2),
        ({"checkpointing": "on"}, 4),
    ):
        counts = values(text_of(owner.get("/planner/", {**query, **fields})), "data-fact")
        assert counts["flops_total"] == str(2 * passes * macs * 3000)


def test_an_unknown_total_is_not_zero(owner: Client) -> None:
    page = text_of(owner.get("/planner/", {"preset": "resnet18", "epochs": 3}))
    assert page.count("data-unknown") == 2
    assert "flops_total" not in values(page, "data-fact")


def test_numbers_of_a_model(owner: Client) -> None:
    numbers = {
        "source": "numbers", "parameters": "25 557 032", "macs": 4089184256,
        "layer_outputs": 32040424, "precision": "bf16", "optimiser": "sgd", "k": 1, "batch": 10,
    }  # fmt: skip
    page = text_of(owner.get("/planner/", numbers))
    parts = values(page, "data-memory-part")
    assert parts["weights"] == str(25_557_032 * 2)
    assert parts["optimiser"] == "0"
    assert parts["activations"] == str(10 * 32_040_424 * 2)
    assert "data-no-layers" in page


def test_the_lesson_states_what_it_does_not_count(owner: Client) -> None:
    plain = text_of(owner.get("/planner/", {"preset": "resnet18"}))
    assert "data-lesson-limits" not in plain
    other = {"preset": "resnet18", "trainable": "head", "precision": "mixed", "checkpointing": "on"}
    page = text_of(owner.get("/planner/", other))
    assert page[page.index("data-lesson-limits") :].split("</div>")[0].count("<p>") == 3


def test_cards_of_the_lab_and_of_the_catalogue(owner: Client, lab: SmallLab) -> None:
    HardwareModel.objects.all().delete()
    for year, name, gib in ((2020, "Card A", 8), (2024, "Card B", 8), (2025, "Card C", 80)):
        add_model(name, gib, release_year=year)
    add_model("Card D", 80, release_year=2019)
    own = HardwareModel.objects.create(
        lab=lab.lab, kind=HardwareKind.GPU, name="Card E", match_key=match_key("Card E"),
        memory_mib=2048, source="s", licence="l",
    )  # fmt: skip
    HardwareAlias.objects.create(model=own, match_key=match_key("Tesla E-2"))
    for number, name in enumerate(("Card A", "Card A", "Tesla E-2", "Nameless X")):
        add_gpu(lab, name, number)
    page = text_of(owner.get("/planner/", {"preset": "resnet18", "batch": 64}))
    rows = re.findall(
        r'<tr data-card="(\w+)"\s+data-verdict="\w+".*?data-lesson-verdict="(\w+)".*?</tr>',
        page,
        re.DOTALL,
    )
    needed = 12 * (4 * 11_689_512 * 4 + 64 * 7_477_736 * 2 * 4) // 10
    assert 4 * GIB < needed < 7 * GIB
    assert rows == [
        ("lab", "fits"),  # Card A, 8 GiB
        ("lab", "unknown"),
        ("lab", "does_not_fit"),  # Card E by its alias, 2 GiB
        ("catalogue", "fits"),
        ("catalogue", "fits"),
    ]
    assert "2 × Card A" in page
    assert "such as Card B" in page
    assert "such as Card C" in page
    assert 'class="chosen" data-selected' in page  # the largest card of the lab
    assert "Fits on ws-1" in re.sub(r"\s+", " ", page)


def test_without_a_gpu_of_the_lab(owner: Client, lab: SmallLab) -> None:
    page = text_of(owner.get("/planner/", {"preset": "resnet18"}))
    assert "data-no-lab-cards" in page
    Node.objects.filter(pk=lab.node.pk).update(retired_us=T0)
    add_gpu(lab, "NVIDIA A100-SXM4-40GB")
    page = text_of(owner.get("/planner/", {"preset": "resnet18"}))
    assert "data-no-lab-cards" in page  # of a retired node


def test_layers_with_chart_table_and_largest(owner: Client) -> None:
    query = {"source": "layers", "layers": LENET.strip(), "input": "1x28x28", "batch": 10}
    page = text_of(owner.get("/planner/", query))
    assert 'data-chart="planner-layers"' in page
    table = page[page.index("data-layers") :]
    assert table[: table.index("</table>")].count('<th scope="row">') == 12
    first = 6 * 24 * 24 * 10 * 4
    assert f'data-largest="2" data-bytes="{2 * first}"' in page  # the first relu: input, output


def test_a_long_model_draws_its_largest_layers(owner: Client) -> None:
    table = "repeat 200\nlinear 64\nrelu\nend"
    query = {"source": "layers", "layers": table, "input": "1x28x28"}
    page = text_of(owner.get("/planner/", query))
    assert "the 60 largest of 400" in page
    rows = b"".join(owner.get("/planner/layers.csv", query).streaming_content).decode()  # type: ignore[attr-defined]
    assert len(rows.splitlines()) == 401


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"batch": "0"}, "batch"),
        ({"batch": ""}, "batch"),
        ({"batch": "9" * 30}, "batch"),
        ({"batch": "\u0663"}, "batch"),
        ({"epochs": "1.5"}, "epochs"),
        ({"samples": "x"}, "samples"),
        ({"preset": "nope"}, "preset"),
        ({"precision": "fp7"}, "precision"),
        ({"optimiser": "\x00"}, "optimiser"),
        ({"k": "3"}, "k"),
        ({"place": "any-1"}, "place"),
        ({"source": "nope"}, "source"),
        ({"source": "layers", "input": "3x4x4"}, "layers"),
        ({"source": "layers", "layers": "relu"}, "input"),
        ({"source": "layers", "layers": "relu", "input": "3x"}, "input"),
        ({"source": "layers", "layers": "relu\nfoo", "input": "3x4x4"}, "layers"),
        ({"source": "layers", "layers": "relu\x00", "input": "3x4x4"}, "layers"),
        ({"source": "layers", "layers": "relu\n" * 1000, "input": "3x4x4"}, "layers"),
        ({"source": "numbers", "macs": "1", "layer_outputs": "1"}, "parameters"),
    ],
)
def test_errors_are_at_their_fields_and_keep_the_input(
    owner: Client, fields: dict[str, str], field: str
) -> None:
    query = {"preset": "resnet18", "samples": "4242", **fields}
    response = owner.get("/planner/", query)
    page = text_of(response)
    assert response.status_code == 400
    assert f'data-field-error="{field}"' in page
    assert "data-memory" not in page
    if "samples" not in fields:
        assert 'value="4242"' in page
    for address in ("/planner/result.csv", "/planner/layers.csv"):
        assert owner.get(address, query).status_code == 400


def test_fields_of_another_source_are_not_read(owner: Client) -> None:
    query = {"preset": "resnet18", "layers": "foo", "input": "x", "macs": "x", "batch": "8"}
    response = owner.get("/planner/", query)
    assert response.status_code == 200
    link = re.search(r'id="plan-link"[^>]*>([^<]+)<', text_of(response))
    assert link
    parts = urlsplit(unescape(link[1]))
    assert set(parse_qs(parts.query)) == {
        "source", "preset", "batch", "precision", "optimiser", "trainable", "checkpointing", "k",
        "attention", "gpus", "early",
    }  # fmt: skip
    again = owner.get(f"{parts.path}?{parts.query}")
    assert values(text_of(again), "data-memory-part") == values(
        text_of(response), "data-memory-part"
    )


def test_a_table_in_the_address_is_escaped(owner: Client, lab: SmallLab) -> None:
    add_gpu(lab, HOSTILE)
    table = f"a: relu\n# {HOSTILE}"
    response = owner.get("/planner/", {"source": "layers", "layers": table, "input": "3x4x4"})
    assert response.status_code == 200
    assert HOSTILE not in response.content.decode()
    assert "<script>alert" not in response.content.decode()


def test_csv_with_exact_integers(owner: Client, lab: SmallLab) -> None:
    add_gpu(lab, "=HYPERLINK(1)")
    Node.objects.filter(pk=lab.node.pk).update(display_name="=cmd")
    query = urlencode({"preset": "lenet5", "batch": 2, "optimiser": "adam"})
    response = owner.get(f"/planner/result.csv?{query}")
    lines = b"".join(response.streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    assert lines[0] == "section,name,value,unit,verdict,lesson_verdict,lesson_cards"
    assert "model,parameters,61706,count,,," in lines
    assert "model,steps,,count,,," in lines
    assert f"lesson_memory,optimiser,{61706 * 2 * 4},byte,,," in lines
    assert any(line.startswith("lab,'=cmd") for line in lines)


def test_a_viewer_may_and_another_lab_sees_its_own_cards(
    viewer: Client, outsider: Client, lab: SmallLab
) -> None:
    add_gpu(lab, "NVIDIA A100-SXM4-40GB")
    query = {"preset": "resnet18"}
    assert 'data-card="lab"' in text_of(viewer.get("/planner/", query))
    assert 'data-card="lab"' not in text_of(outsider.get("/planner/", query))
    place = f"{lab.node.uuid}.{match_key('NVIDIA A100-SXM4-40GB')}"
    assert viewer.get("/planner/", {**query, "place": place}).status_code == 200
    assert outsider.get("/planner/", {**query, "place": place}).status_code == 400
    assert viewer.post("/planner/", query).status_code == 405


def test_the_number_of_queries_does_not_depend_on_nodes(owner: Client, lab: SmallLab) -> None:
    add_gpu(lab, "NVIDIA A100-SXM4-40GB")
    owner.get("/planner/")
    with CaptureQueriesContext(connection) as few:
        owner.get("/planner/", {"preset": "resnet18"})
    for number in range(20):
        node = Node.objects.create(
            lab=lab.lab, uuid=f"00000000-0000-4000-8000-{number:012d}", hostname=f"n{number}",
            enrolled_us=T0,
        )  # fmt: skip
        add_gpu(lab, f"NVIDIA Card {number}", number, node)
    with CaptureQueriesContext(connection) as many:
        owner.get("/planner/", {"preset": "resnet18"})
    assert len(few) == len(many) <= 26


def test_the_largest_layer_against_the_card(owner: Client, lab: SmallLab) -> None:
    add_gpu(lab, "NVIDIA A100-SXM4-40GB")
    query = {"source": "layers", "layers": "linear 100000", "input": "1x200x500", "batch": 1}
    page = text_of(owner.get("/planner/", query))
    share = 100 * (100_000 * 100_000 + 100_000) * 4 // (40 * GIB)
    assert f"{share}{THIN}% of the memory of ws-1" in re.sub(r"[ \n]+", " ", page)


def test_the_refined_formula_with_parts_that_sum_to_the_total(owner: Client) -> None:
    page = text_of(owner.get("/planner/", {"preset": "resnet18", "batch": 64}))
    section = page[page.index('data-memory="refined"') :]
    total = re.search(r'data-likely="(\d+)"', section)
    assert total
    parts = re.findall(r'data-part-key="\w+" data-likely="(\d+)"', section)
    assert sum(map(int, parts)) == int(total[1])
    assert dict(re.findall(r'data-part-key="(\w+)" data-likely="(\d+)"', section))[
        "weights"
    ] == str(11_689_512 * 4)


def test_what_to_change_first(owner: Client, lab: SmallLab) -> None:
    add_model("NVIDIA Small", 6)
    add_gpu(lab, "NVIDIA Small")
    query = {"preset": "resnet50", "batch": 256}
    page = text_of(owner.get("/planner/", query))
    assert 'data-verdict="does_not_fit"' in page[page.index("<h1") : page.index("</h1>")]
    keys = re.findall(r'data-change-keys="([a-z_ ]+)"', page)
    assert keys[0] == "smaller_batch"
    largest = re.search(r'data-largest-batch="(\d+)"', page)
    assert largest
    fitting = text_of(owner.get("/planner/", {**query, "batch": largest[1]}))
    assert 'data-verdict="fits"' in fitting[fitting.index("<h1") : fitting.index("</h1>")]
    larger = text_of(owner.get("/planner/", {**query, "batch": int(largest[1]) + 1}))
    assert 'data-verdict="fits"' not in larger[larger.index("<h1") : larger.index("</h1>")]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        (
            {
                "source": "numbers", "parameters": 10, "macs": 10, "layer_outputs": 10,
                "trainable": "head",
            },
            "trained",
        ),
        ({"preset": "resnet18", "batch": 2_000_000}, "batch"),
        ({"preset": "resnet18", "trainable": "head", "trained": 10**9}, "trained"),
        ({"preset": "resnet18", "attention": "x"}, "attention"),
    ],
)  # fmt: skip
def test_a_training_that_cannot_be_computed(
    owner: Client, fields: dict[str, object], field: str
) -> None:
    response = owner.get("/planner/", fields)
    assert response.status_code == 400
    assert f'data-field-error="{field}"' in text_of(response)
