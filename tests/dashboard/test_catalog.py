"""/catalog/, /catalog.csv, /catalog/<id>/, /catalog/new/ and a figure's document."""

import csv
import io
import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils.html import escape

from apps.accounts.models import AuditEntry
from apps.catalog.choices import FigureMethod
from apps.catalog.matching import Draft
from apps.catalog.models import EmbodiedFigure, Evidence, HardwareModel
from apps.catalog.packs import all_packs, pack_of
from apps.catalog.selectors import best_figure, model_of
from apps.catalog.services import add_figure, add_model
from apps.catalog.services.custom_models import MOST_EVIDENCE_BYTES
from apps.core.units import UG_PER_KG
from apps.dashboard.catalog.catalog_pages import METHOD_REASONS
from tests.builders import T0, SmallLab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import HOSTILE, assert_needs_sign_in, assert_only, queries, text_of
from tests.shipped_data import empty_catalogue

PDF = b"%PDF-1.7\n%%EOF\n"
UPLOAD = {
    "action": "upload",
    "method": "pcf",
    "unit": "item",
    "source": "Maker 2024",
    "total_kg": "90,5",
}
_EMBODIED = re.compile(r'data-embodied="(\d+)" data-value="(\d+)"')


@pytest.fixture
def card(db: None) -> HardwareModel:
    found = model_of("gpu", "NVIDIA L4")
    assert found is not None
    return found


def own(lab: SmallLab, name: str = "Maker S1") -> HardwareModel:
    return add_model(lab=lab.lab, kind="server", name=name, by=lab.owner, now=T0)


def packs_on(page: str) -> set[str]:
    return set(re.findall(r'data-pack="([^"]+)"', page))


def packs_of_figures_on(page: str) -> set[str]:
    shown = {int(pk) for pk, _ in _EMBODIED.findall(page)}
    return set(EmbodiedFigure.objects.filter(pk__in=shown).values_list("pack", flat=True)) - {""}


def test_the_list_shows_what_is_known_and_by_what(
    lab: SmallLab, owner: Client, card: HardwareModel
) -> None:
    page = text_of(owner.get("/catalog/?kind=gpu&q=nvidia+l4"))
    assert 'data-count="3"' in page, "L4, L40 and L40S"
    best = best_figure(card, lab.lab)
    assert best is not None
    assert (str(best.pk), str(best.total_ug)) in _EMBODIED.findall(page)
    assert "57.7" in page
    assert "Life-cycle assessment" in page


@pytest.mark.django_db
def test_models_are_counted_in_words(owner: Client) -> None:
    assert re.search(
        r'<caption><span data-count="2\d{3}">2\u202f\d{3} models</span></caption>',
        text_of(owner.get("/catalog/")),
    )
    assert 'data-count="1">1 model</span></caption>' in text_of(owner.get("/catalog/?q=l40s"))


def test_what_is_not_known_is_said(owner: Client) -> None:
    page = text_of(owner.get("/catalog/?kind=cpu&q=6248R"))
    assert "data-unknown" in page
    assert _EMBODIED.findall(page) == []


@pytest.mark.django_db
def test_every_page_with_a_figure_of_a_pack_carries_its_notice(owner: Client) -> None:
    met: set[str] = set()
    for query in (
        "",
        "?kind=gpu",
        "?kind=laptop",
        "?kind=storage",
        "?kind=network",
        "?q=graviton",
        "?kind=monitor&page=2",
    ):
        page = text_of(owner.get(f"/catalog/{query}"))
        assert packs_of_figures_on(page) <= packs_on(page), query
        met |= packs_of_figures_on(page)
        for pack in packs_on(page):
            assert pack_of(pack).notice.replace("'", "&#x27;") in page
            assert pack_of(pack).licence_url in page
    assert met == set(all_packs()), "each pack was looked at"
    assert packs_on(text_of(owner.get("/catalog/?kind=network&q=switch"))) == set(), (
        "no notice where none is due"
    )
    for pack in all_packs():
        figures = EmbodiedFigure.objects.filter(pack=pack)
        for figure in (figures.earliest("pk"), figures.latest("pk")):
            page = text_of(owner.get(f"/catalog/{figure.model_id}/"))
            assert pack in packs_on(page)
            assert str(figure.pk) in dict(_EMBODIED.findall(page))


@pytest.mark.django_db
def test_the_csv_has_all_that_fit_exactly_and_the_notice(owner: Client) -> None:
    response = owner.get("/catalog.csv?kind=gpu")
    assert response["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(text_of(response))))
    assert len(rows) == HardwareModel.objects.filter(kind="gpu").count() > 100
    [l4] = [row for row in rows if row["name"] == "NVIDIA L4"]
    assert (l4["total_ug_co2e"], l4["total_kg_co2e"], l4["end_of_life_ug_co2e"]) == (
        "57700000000",
        "57.7",
        "256000000",
    )
    assert l4["notice"] == pack_of("hubblo-cc-by-sa").notice
    unknown = [row for row in rows if not row["total_ug_co2e"]]
    assert unknown, "models without a figure are listed"
    assert all(row["low_ug_co2e"] == row["licence"] == "" for row in unknown)
    for row in rows:
        assert bool(row["notice"]) is bool(row["pack"])


def test_every_amount_leads_to_its_entry_and_is_its_integer(
    owner: Client, card: HardwareModel
) -> None:
    """An amount of the catalogue is a link to the figure's own entry, where the same integer
    stands.
    """
    linked = re.compile(r'data-embodied="(\d+)" data-value="(\d+)" href="([^"]+)"')
    listed = linked.findall(text_of(owner.get("/catalog/?kind=storage")))
    assert len(listed) > 60
    for pk, value, href in listed[::10]:
        address, _, anchor = href.partition("#")
        entry = text_of(owner.get(address))
        assert f'id="{anchor}"' in entry
        assert anchor == f"figure-{pk}"
        assert (pk, value) in _EMBODIED.findall(entry)


def test_pages_are_walked_without_a_gap(owner: Client) -> None:
    seen: list[str] = []
    address = "/catalog/?kind=monitor"
    while address:
        page = text_of(owner.get(address))
        seen += re.findall(r'<tr><td><a href="/catalog/(\d+)/"', page)
        later = re.search(r'href="(\?[^"]+)" rel="next"', page)
        address = "/catalog/" + later[1].replace("&amp;", "&") if later else ""
    assert len(seen) == len(set(seen)) == HardwareModel.objects.filter(kind="monitor").count() > 50


def test_nothing_fits(owner: Client, viewer: Client) -> None:
    page = text_of(owner.get("/catalog/?q=no+such&kind=gpu"))
    assert 'data-empty="filters"' in page
    assert "/catalog/new/?kind=gpu&amp;name=no%20such" in page
    assert "/catalog/new/" not in text_of(viewer.get("/catalog/?q=no+such"))
    empty_catalogue()
    assert 'data-empty="catalogue"' in text_of(owner.get("/catalog/"))


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("kind=toaster", "is not a kind of hardware"),
        ("page=0", "Invalid page number"),
        ("page=x", "Invalid page number"),
        ("page=99999999", "Invalid page number"),
        ("q=a%00b", "Invalid search text"),
        ("q=" + "x" * 201, "Invalid search text"),
    ],
)
def test_bad_questions_are_told(owner: Client, query: str, words: str) -> None:
    for address in ("/catalog/", "/catalog.csv"):
        if address == "/catalog.csv" and query.startswith("page"):
            continue
        response = owner.get(f"{address}?{query}")
        assert response.status_code == 400
        assert words in text_of(response)


def test_a_model_tells_its_parts_and_why_its_figure_is_used(
    owner: Client, card: HardwareModel
) -> None:
    page = text_of(owner.get(f"/catalog/{card.pk}/"))
    assert METHOD_REASONS[FigureMethod.LCA] in page
    assert ">used<" in page
    values = {int(value) for _, value in _EMBODIED.findall(page)}
    assert {57_700_000_000, 57_404_600_000, 39_400_000, 256_000_000} <= values
    assert "CC BY-SA 4.0" in page


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("gpu", "NVIDIA H100 80GB HBM3", "not included"),
        ("server", "Dell PowerEdge R740", "included in total"),
        ("laptop", "ADEME laptop, professional", "unknown whether included"),
        ("cpu", "Intel Xeon Gold 6248R", "data-embodied-default"),
    ],
)
def test_the_end_of_life_is_told_apart(owner: Client, kind: str, name: str, words: str) -> None:
    model = model_of(kind, name)
    assert model is not None
    assert words in text_of(owner.get(f"/catalog/{model.pk}/"))


def test_a_figure_is_uploaded_with_its_document(
    lab: SmallLab, owner: Client, viewer: Client, outsider: Client
) -> None:
    empty_catalogue()
    model = own(lab)
    page = text_of(owner.get(f"/catalog/{model.pk}/"))
    assert "data-embodied-unknown" in page
    file = SimpleUploadedFile("Maker S1.pdf", PDF, "application/pdf")
    response = owner.post(
        f"/catalog/{model.pk}/", {**UPLOAD, "end_of_life_kg": "1", "evidence": file}
    )
    assert response.status_code == 302, text_of(response)
    figure = EmbodiedFigure.objects.get(lab=lab.lab)
    assert (figure.total_ug, figure.end_of_life_ug, figure.manufacture_ug) == (
        90_500_000_000,
        UG_PER_KG,
        None,
    )
    assert AuditEntry.objects.filter(lab=lab.lab, action="figure.uploaded").exists()
    page = text_of(viewer.get(f"/catalog/{model.pk}/"))
    assert "Maker S1.pdf" in page
    assert 'value="upload"' not in page
    address = f"/catalog/figures/{figure.pk}/evidence/"
    for client in (owner, viewer):
        document = client.get(address)
        assert document.content == PDF
        assert document["Content-Type"] == "application/pdf"
        assert document["Content-Disposition"] == 'attachment; filename="Maker S1.pdf"'
        assert document["X-Content-Type-Options"] == "nosniff"
        assert "no-store" in document["Cache-Control"]
        assert "default-src 'none'" in document["Content-Security-Policy"]
    for path in (address, f"/catalog/{model.pk}/"):
        assert outsider.get(path).status_code == 404
        assert b"Maker" not in outsider.get(path).content
    assert outsider.post(f"/catalog/{model.pk}/", UPLOAD).status_code == 404
    assert "Maker S1" not in text_of(outsider.get("/catalog/"))
    assert "Maker S1" not in text_of(outsider.get("/catalog.csv"))


def test_an_own_figure_of_a_shipped_model_is_its_lab_s_alone(
    lab: SmallLab, owner: Client, outsider: Client, card: HardwareModel
) -> None:
    assert owner.post(f"/catalog/{card.pk}/", UPLOAD).status_code == 302
    assert escape(METHOD_REASONS[FigureMethod.PCF]) in text_of(owner.get(f"/catalog/{card.pk}/"))
    theirs = text_of(outsider.get(f"/catalog/{card.pk}/"))
    assert METHOD_REASONS[FigureMethod.LCA] in theirs
    assert "Maker 2024" not in theirs
    mine = EmbodiedFigure.objects.get(lab=lab.lab)
    refused = outsider.post(f"/catalog/{card.pk}/", {"action": "withdraw", "figure": str(mine.pk)})
    assert refused.status_code == 404
    mine.refresh_from_db()
    assert mine.superseded_us is None


def test_a_figure_is_withdrawn_and_its_document_stays(lab: SmallLab, owner: Client) -> None:
    model = own(lab)
    owner.post(f"/catalog/{model.pk}/", {**UPLOAD, "evidence": SimpleUploadedFile("a.pdf", PDF)})
    figure = EmbodiedFigure.objects.get(lab=lab.lab)
    form = {"action": "withdraw", "figure": str(figure.pk)}
    assert owner.post(f"/catalog/{model.pk}/", form).status_code == 302
    page = text_of(owner.get(f"/catalog/{model.pk}/"))
    assert "Superseded figures (1)" in page
    assert "superseded" in page
    assert owner.get(f"/catalog/figures/{figure.pk}/evidence/").content == PDF
    assert owner.post(f"/catalog/{model.pk}/", form).status_code == 409


def test_a_model_is_taken_off(lab: SmallLab, owner: Client) -> None:
    model = own(lab)
    assert owner.post(f"/catalog/{model.pk}/", {"action": "retire"}).status_code == 302
    assert "Removed from the catalogue" in text_of(owner.get(f"/catalog/{model.pk}/"))
    assert "Maker S1" not in text_of(owner.get("/catalog/"))


@pytest.mark.parametrize(
    ("form", "status", "field"),
    [
        ({"total_kg": ""}, 400, "total_kg"),
        ({"total_kg": "much"}, 400, "total_kg"),
        ({"total_kg": "NaN"}, 400, "total_kg"),
        ({"total_kg": "1,234.5"}, 400, "total_kg"),
        ({"total_kg": "-1"}, 400, "total_kg"),
        ({"total_kg": "1e99"}, 400, "total_kg"),
        ({"source": " "}, 400, "source"),
        ({"source": "x" * 501}, 400, "source"),
        ({"source_year": "20x4"}, 400, "source_year"),
        ({"source_year": "2024.5"}, 400, "source_year"),
        ({"source_year": "3024"}, 400, "source_year"),
        ({"method": "guess"}, 400, "method"),
        ({"unit": "dozen"}, 400, "unit"),
        ({"includes_end_of_life": "maybe"}, 400, "includes_end_of_life"),
        ({"manufacture_kg": "91"}, 400, "total_kg"),
        ({"lifetime_years": "400"}, 400, "lifetime_years"),
        ({"evidence": SimpleUploadedFile("a.pdf", b"<html>")}, 400, "evidence"),
        (
            {"evidence": SimpleUploadedFile("a.pdf", PDF.ljust(MOST_EVIDENCE_BYTES + 1))},
            413,
            "evidence",
        ),
        ({"action": "dance"}, 400, ""),
        ({"action": "withdraw", "figure": "x"}, 404, ""),
        ({"action": "withdraw", "figure": "9" * 30}, 404, ""),
    ],
)
def test_what_cannot_be_recorded_is_told(
    lab: SmallLab, owner: Client, form: dict[str, Any], status: int, field: str
) -> None:
    model = own(lab)
    response = owner.post(f"/catalog/{model.pk}/", {**UPLOAD, **form})
    assert response.status_code == status
    page = text_of(response)
    assert re.findall(r'data-field-error="(\w+)"', page) == ([field] if field else [])
    if status == 400 and form.get("action") is None and "source" not in form:
        assert 'value="Maker 2024"' in page, "what was typed is still there"
    assert not EmbodiedFigure.objects.filter(lab=lab.lab).exists()
    assert not Evidence.objects.exists()


def test_a_new_model_is_added(lab: SmallLab, owner: Client, outsider: Client) -> None:
    assert "New model" in text_of(owner.get("/catalog/"))
    assert 'value="S2"' in text_of(owner.get("/catalog/new/?name=S2"))
    form = {
        "kind": "server",
        "name": "Maker S2",
        "aliases": "S2\nSys-2",
        "vendor": "Maker",
        "tdp_w": "850",
        "release_year": "",
    }
    response = owner.post("/catalog/new/", form)
    model = HardwareModel.objects.get(lab=lab.lab)
    assert response["Location"] == f"/catalog/{model.pk}/"
    assert (model.lab, model.tdp_mw, model.release_year) == (lab.lab, 850_000, None)
    assert model_of("server", "sys-2", lab.lab) == model
    assert AuditEntry.objects.filter(lab=lab.lab, action="model.added", subject="Maker S2").exists()
    again = owner.post("/catalog/new/", form)
    assert again.status_code == 409
    assert f"/catalog/{model.pk}/" in text_of(again)
    assert 'value="Maker S2"' in text_of(again)
    assert outsider.post("/catalog/new/", form).status_code == 302, (
        "another lab may have its own of the same name"
    )


@pytest.mark.parametrize(
    ("form", "fields"),
    [
        ({"kind": ""}, {"kind"}),
        ({"kind": "toaster"}, {"kind"}),
        ({"name": ""}, {"name"}),
        ({"tdp_w": "hot"}, {"tdp_w"}),
        ({"release_year": "1066"}, {"release_year"}),
        ({"release_year": "5", "tdp_w": "-1"}, {"release_year", "tdp_w"}),
        ({"name": "", "tdp_w": "hot", "release_year": "x"}, {"name", "tdp_w", "release_year"}),
    ],
)
def test_a_model_that_cannot_be_is_told(
    owner: Client, form: dict[str, str], fields: set[str]
) -> None:
    response = owner.post("/catalog/new/", {"kind": "server", "name": "S3", **form})
    assert response.status_code == 400
    assert set(re.findall(r'data-field-error="(\w+)"', text_of(response))) == fields
    assert not HardwareModel.objects.filter(lab__isnull=False).exists()


def test_who_may_not(lab: SmallLab, owner: Client, viewer: Client) -> None:
    model = own(lab)
    figure = add_figure(
        lab=lab.lab,
        model=model,
        draft=Draft("pcf", "item", "s", total_ug=UG_PER_KG),
        by=lab.owner,
        now=T0,
    )
    pages = ("/catalog/", "/catalog.csv", f"/catalog/{model.pk}/", "/catalog/new/")
    for address in (*pages, f"/catalog/figures/{figure.pk}/evidence/"):
        assert_needs_sign_in(address)
    assert_only(owner, "/catalog/", "GET")
    assert_only(owner, "/catalog.csv", "GET")
    assert_only(owner, f"/catalog/figures/{figure.pk}/evidence/", "GET")
    assert_only(owner, f"/catalog/{model.pk}/", "GET", "POST")
    assert_only(owner, "/catalog/new/", "GET", "POST")
    for form in (UPLOAD, {"action": "withdraw", "figure": str(figure.pk)}, {"action": "retire"}):
        assert viewer.post(f"/catalog/{model.pk}/", form).status_code == 403
    assert viewer.get("/catalog/new/").status_code == 403
    assert viewer.post("/catalog/new/", {"kind": "gpu", "name": "x"}).status_code == 403
    assert owner.get(f"/catalog/figures/{figure.pk}/evidence/").status_code == 404, (
        "no document was uploaded"
    )
    for absent in ("/catalog/999999/", f"/catalog/{2**70}/", f"/catalog/figures/{2**70}/evidence/"):
        assert owner.get(absent).status_code == 404
    figure.refresh_from_db()
    assert figure.superseded_us is None


def test_names_and_words_are_text(lab: SmallLab, owner: Client) -> None:
    model = own(lab, name=HOSTILE)
    draft = Draft("pcf", "item", HOSTILE, total_ug=UG_PER_KG, note=HOSTILE)
    add_figure(lab=lab.lab, model=model, draft=draft, by=lab.owner, now=T0)
    for address in ("/catalog/", f"/catalog/{model.pk}/"):
        page = text_of(owner.get(address))
        assert "<script>alert(1)" not in page
        assert "&lt;script&gt;" in page


def test_queries_do_not_grow(lab: SmallLab, card: HardwareModel) -> None:
    client = client_of(lab.owner)
    client.get("/catalog/")
    assert queries(client, "/catalog/?q=l40s") == queries(client, "/catalog/?kind=cpu")
    few = queries(client, f"/catalog/{card.pk}/")
    for method in ("pcf", "lca", "parametric", "category"):
        draft = Draft(method, "item", "s", total_ug=UG_PER_KG)
        add_figure(lab=lab.lab, model=card, draft=draft, by=lab.owner, now=T0)
    assert queries(client, f"/catalog/{card.pk}/") == few
