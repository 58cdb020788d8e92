"""A lab's own models and figures: what is filled in, what is refused, superseding, documents,
the audit log.
"""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts import audit
from apps.accounts.models import AuditEntry
from apps.catalog.matching import MOST_KG, Draft, completed, kg_to_ug
from apps.catalog.models import EmbodiedFigure, Evidence, HardwareModel
from apps.catalog.selectors import best_figure, evidence_of, model_of
from apps.catalog.services import add_figure, add_model, retire_model, withdraw_figure
from apps.catalog.services.custom_models import MOST_EVIDENCE_BYTES, Document
from apps.core.errors import Conflict, InvalidInput, NotFound, TooLarge
from apps.core.units import UG_PER_KG
from tests.builders import T0, SmallLab, small_lab

KG = UG_PER_KG
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<<>>\nendobj\n"


def draft(**fields: Any) -> Draft:
    return Draft(**{"method": "pcf", "unit": "item", "source": "Maker 2024", **fields})


def own_model(lab: SmallLab, **fields: Any) -> HardwareModel:
    return add_model(
        **{
            "lab": lab.lab,
            "kind": "server",
            "name": "Maker S1",
            "by": lab.owner,
            "now": T0,
            **fields,
        }
    )


def test_a_total_that_is_not_stated_is_the_sum_of_the_parts_that_are() -> None:
    full = completed(draft(manufacture_ug=80 * KG, transport_ug=5 * KG, end_of_life_ug=2 * KG))
    assert (full.total_ug, full.includes_end_of_life) == (87 * KG, True)
    assert (full.low_ug, full.high_ug) == (87 * KG * 7 // 10, 87 * KG * 13 // 10)
    assert "generic ±30 %" in full.note


def test_a_part_that_is_not_stated_stays_unknown() -> None:
    full = completed(
        draft(total_ug=90 * KG, manufacture_ug=80 * KG, low_ug=70 * KG, high_ug=100 * KG)
    )
    assert (full.transport_ug, full.end_of_life_ug, full.includes_end_of_life) == (None, None, None)
    assert full.note == ""


@pytest.mark.parametrize("inside", [True, False, None])
def test_whether_the_end_of_life_is_inside_is_kept_as_said(inside: bool | None) -> None:
    assert (
        completed(draft(total_ug=90 * KG, includes_end_of_life=inside)).includes_end_of_life
        is inside
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "The figure is missing"),
        ({"total_ug": 0}, "is out of range"),
        ({"total_ug": MOST_KG * KG + 1}, "is out of range"),
        (
            {"total_ug": 10 * KG, "manufacture_ug": 11 * KG},
            "The parts make 11 kg, more than the total of 10 kg",
        ),
        (
            {"total_ug": 100 * KG, "manufacture_ug": 90 * KG, "transport_ug": 12 * KG},
            "more than the total",
        ),
        (
            {
                "total_ug": 100 * KG,
                "manufacture_ug": 90 * KG,
                "transport_ug": 0,
                "end_of_life_ug": KG,
            },
            "The three parts make 91 kg, the total is 100 kg",
        ),
        ({"total_ug": 10 * KG, "low_ug": 11 * KG, "high_ug": 12 * KG}, "not a range around 10 kg"),
        ({"total_ug": 10 * KG, "low_ug": 9 * KG}, "not a range around"),
        (
            {"total_ug": 10 * KG, "end_of_life_ug": KG, "includes_end_of_life": False},
            "not included in the total",
        ),
    ],
)
def test_what_cannot_be_is_told(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput) as told:
        completed(draft(**fields))
    assert words in told.value.message
    assert told.value.hint


AMOUNT = st.integers(0, 10_000 * KG)


@given(st.lists(st.none() | AMOUNT, min_size=3, max_size=3), st.none() | AMOUNT)
def test_a_completed_figure_keeps_every_rule_of_the_database(
    parts: list[int | None], total: int | None
) -> None:
    names = ("manufacture_ug", "transport_ug", "end_of_life_ug")
    asked = draft(total_ug=total, **dict(zip(names, parts, strict=True)))
    try:
        full = completed(asked)
    except InvalidInput:
        return
    assert full.total_ug is not None
    assert full.low_ug is not None
    assert full.high_ug is not None
    assert 0 <= full.low_ug <= full.total_ug <= full.high_ug
    assert [getattr(full, name) for name in names] == parts, "no part is invented or changed"
    assert all(part <= full.total_ug for part in parts if part is not None)
    assert full.includes_end_of_life is True or parts[2] is None


@given(st.decimals(0, 10**6, places=6))
def test_kilograms_become_micrograms_exactly(kg: Decimal) -> None:
    assert kg_to_ug(kg) == kg * UG_PER_KG


def test_half_a_microgram_is_rounded_up() -> None:
    assert kg_to_ug(Decimal("0.0000000005")) == 1
    assert kg_to_ug(Decimal("0.00000000049")) == 0


def test_an_own_figure_is_used_recorded_and_superseded_by_the_next(lab: SmallLab) -> None:
    model = own_model(lab)
    first = add_figure(
        lab=lab.lab, model=model, draft=draft(total_ug=90 * KG), by=lab.owner, now=T0 + 1
    )
    assert best_figure(model, lab.lab) == first
    assert (first.licence, first.confidence, first.uploaded_by) == (
        "the lab's own",
        "stated",
        lab.owner,
    )
    second = add_figure(
        lab=lab.lab, model=model, draft=draft(total_ug=95 * KG), by=lab.owner, now=T0 + 2
    )
    first.refresh_from_db()
    assert (first.total_ug, first.superseded_us, first.superseded_by) == (
        90 * KG,
        T0 + 2,
        lab.owner,
    )
    assert best_figure(model, lab.lab) == second
    other = add_figure(
        lab=lab.lab, model=model, draft=draft(method="lca", total_ug=KG), by=lab.owner, now=T0 + 3
    )
    assert EmbodiedFigure.objects.filter(lab=lab.lab, superseded_us__isnull=True).count() == 2, (
        f"{other} is of another method"
    )
    log = list(
        AuditEntry.objects.filter(lab=lab.lab, action="figure.uploaded").order_by("sequence")
    )
    assert [row.details["supersedes"] for row in log] == [None, first.pk, None]
    assert log[1].details["total_ug"] == 95 * KG
    assert audit.verify(lab.lab) is None


def test_a_withdrawn_figure_is_not_used_and_cannot_be_withdrawn_again(lab: SmallLab) -> None:
    model = own_model(lab)
    figure = add_figure(
        lab=lab.lab, model=model, draft=draft(total_ug=90 * KG), by=lab.owner, now=T0
    )
    withdraw_figure(lab=lab.lab, figure=figure, by=lab.owner, now=T0 + 1)
    assert best_figure(model, lab.lab) is None
    with pytest.raises(Conflict):
        withdraw_figure(lab=lab.lab, figure=figure, by=lab.owner, now=T0 + 2)
    assert AuditEntry.objects.filter(lab=lab.lab, action="figure.withdrawn").count() == 1


def test_another_lab_s_things_are_not_there(lab: SmallLab) -> None:
    other = small_lab(name="Other")
    model = own_model(lab)
    figure = add_figure(lab=lab.lab, model=model, draft=draft(total_ug=KG), by=lab.owner, now=T0)
    with pytest.raises(NotFound):
        add_figure(lab=other.lab, model=model, draft=draft(total_ug=KG), by=other.owner, now=T0)
    with pytest.raises(NotFound):
        withdraw_figure(lab=other.lab, figure=figure, by=other.owner, now=T0)
    with pytest.raises(NotFound):
        retire_model(lab=other.lab, model=model, by=other.owner, now=T0)
    card = model_of("gpu", "NVIDIA L4")
    assert card is not None
    shipped_figure = best_figure(card, lab.lab)
    assert shipped_figure is not None
    with pytest.raises(NotFound):
        withdraw_figure(lab=lab.lab, figure=shipped_figure, by=lab.owner, now=T0)
    with pytest.raises(NotFound):
        retire_model(lab=lab.lab, model=card, by=lab.owner, now=T0)


def test_a_name_that_means_a_model_already_is_refused(lab: SmallLab) -> None:
    with pytest.raises(Conflict) as told:
        own_model(lab, kind="gpu", name="nvidia l4")
    assert "NVIDIA L4" in told.value.message
    assert "/catalog/" in told.value.hint
    own_model(lab, name="Maker S1")
    with pytest.raises(Conflict):
        own_model(lab, name="Other", aliases=["maker s1"])
    own_model(small_lab(name="Other"), name="Maker S1")


def test_a_retired_model_is_matched_no_more_and_may_be_added_again(lab: SmallLab) -> None:
    model = own_model(lab)
    retire_model(lab=lab.lab, model=model, by=lab.owner, now=T0 + 1)
    assert model_of("server", "Maker S1", lab.lab) is None
    model.refresh_from_db()
    with pytest.raises(Conflict):
        retire_model(lab=lab.lab, model=model, by=lab.owner, now=T0 + 2)
    with pytest.raises(Conflict):
        add_figure(lab=lab.lab, model=model, draft=draft(total_ug=KG), by=lab.owner, now=T0 + 2)
    again = own_model(lab)
    assert model_of("server", "Maker S1", lab.lab) == again != model


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kind": "toaster"}, "is not a kind of hardware"),
        ({"name": " "}, "Missing name"),
        ({"name": "NVIDIA"}, "is not the name of a model"),
        ({"name": "x" * 201}, "too long"),
        ({"name": "a\x00b"}, "NUL"),
        ({"aliases": [f"alias {i}" for i in range(21)]}, "Too many other names: 21"),
        ({"release_year": 12}, "Invalid year"),
    ],
)
def test_a_model_that_cannot_be_is_told(lab: SmallLab, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput) as told:
        own_model(lab, **fields)
    assert words in told.value.message
    assert not HardwareModel.objects.filter(lab=lab.lab).exists()


def test_a_document_is_kept_to_the_byte(lab: SmallLab) -> None:
    model = own_model(lab)
    document = Document("C:\\papers\\Maker S1 PCF.PDF", PDF + bytes(range(256)))
    figure = add_figure(
        lab=lab.lab, model=model, draft=draft(total_ug=KG), document=document, by=lab.owner, now=T0
    )
    held = evidence_of(lab.lab, figure.pk)
    assert held is not None
    assert (held.file_name, held.size_bytes) == ("Maker S1 PCF.PDF", len(document.content))
    assert bytes(held.content) == document.content
    entry = AuditEntry.objects.get(lab=lab.lab, action="figure.uploaded")
    assert entry.details["evidence_sha256"] == held.sha256
    assert evidence_of(small_lab(name="Other").lab, figure.pk) is None


@pytest.mark.parametrize(
    ("document", "error"),
    [
        (Document("a.pdf", b"MZ\x90\x00"), InvalidInput),
        (Document("a.pdf", b""), InvalidInput),
        (Document("a.html", PDF), InvalidInput),
        (Document("a.pdf", b" %PDF-1.7"), InvalidInput),
        (Document("a.pdf", PDF.ljust(MOST_EVIDENCE_BYTES + 1)), TooLarge),
        (Document("x" * 300 + ".pdf", PDF), InvalidInput),
    ],
    ids=["program", "empty", "name", "not first", "large", "long name"],
)
def test_what_is_no_document_records_nothing(
    lab: SmallLab, document: Document, error: type[Exception]
) -> None:
    model = own_model(lab)
    with pytest.raises(error):
        add_figure(
            lab=lab.lab,
            model=model,
            draft=draft(total_ug=KG),
            document=document,
            by=lab.owner,
            now=T0,
        )
    assert not EmbodiedFigure.objects.filter(lab=lab.lab).exists()
    assert not Evidence.objects.exists()


def test_the_largest_document_is_taken(lab: SmallLab) -> None:
    document = Document("a.pdf", PDF.ljust(MOST_EVIDENCE_BYTES))
    add_figure(
        lab=lab.lab,
        model=own_model(lab),
        draft=draft(total_ug=KG),
        document=document,
        by=lab.owner,
        now=T0,
    )
    assert Evidence.objects.get().size_bytes == MOST_EVIDENCE_BYTES
