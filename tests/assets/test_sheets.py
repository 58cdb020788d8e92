"""Bringing in a register: a lab's spreadsheet matched to the catalogue, foreign exports,
repeats, all or none.
"""

import csv
import io
from typing import Any

import pytest

from apps.assets.models import Asset, EmbodiedCharge, LifecycleEvent, RegisterImport
from apps.assets.services.csv_import import FileRefused, confirm, upload
from apps.assets.spreadsheets.export import OWN, rows
from apps.assets.spreadsheets.rows import Options
from apps.catalog.models import EmbodiedFigure
from apps.core.errors import Conflict, InvalidInput, TooLarge
from apps.core.jobs import run_until_idle
from apps.dashboard.csv_response import cell
from tests.assets.gpus import NETBOX, SNIPE_IT, own_csv
from tests.assets.support import KG
from tests.builders import T0, SmallLab, small_lab

pytestmark = pytest.mark.django_db
NONE = Options()


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


def brought(lab: SmallLab, text: str, options: Options = NONE) -> RegisterImport:
    return upload(
        lab=lab.lab,
        file_name="gpus.csv",
        content=text.encode(),
        options=options,
        by=lab.owner,
        now=T0,
    )


def written(lab: SmallLab, text: str, options: Options = NONE) -> RegisterImport:
    row = brought(lab, text, options)
    confirm(row=row, by=lab.owner, now=T0)
    run_until_idle(worker="test")
    row.refresh_from_db()
    return row


def as_csv(lab: SmallLab) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(OWN)
    writer.writerows(
        [[cell(value) for value in row] for row in rows(Asset.objects.filter(lab=lab.lab))]
    )
    return out.getvalue()


def test_forty_gpus_of_a_spreadsheet_find_their_models_and_figures(lab: SmallLab) -> None:
    row = brought(lab, own_csv())
    assert row.summary["counts"] == {"new": 41}
    assert not Asset.objects.exists()
    assert row.summary["by"] == {"model": 37, "category": 4}
    by_name = {told["name"]: told for told in row.summary["rows"]}
    assert by_name["card 1"]["model"] == "NVIDIA A100-SXM4-80GB"
    best = EmbodiedFigure.objects.filter(model__name="NVIDIA A100-SXM4-80GB", superseded_us=None)
    assert by_name["card 1"]["embodied_ug"] in {figure.total_ug for figure in best}
    assert by_name["card 13"]["model"] == "NVIDIA GeForce RTX 3090"
    bare = next(told for told in row.summary["rows"] if told["line"] == 33)
    assert bare["by"] == "category"
    assert "Did you mean" in bare["why"]
    assert "Tesla V100" in bare["why"], "which of them it is only its owner knows"
    confirm(row=row, by=lab.owner, now=T0)
    run_until_idle(worker="test")
    assert Asset.objects.filter(parent__tag="INV-0", owner__slug="demo", state="use").count() == 40
    charged = sum(EmbodiedCharge.objects.values_list("amount_ug", flat=True))
    assert (
        charged
        == row.summary["total_ug"]
        == sum(filter(None, LifecycleEvent.objects.values_list("total_ug", flat=True)))
    )


def test_a_second_import_changes_nothing_and_says_so(lab: SmallLab) -> None:
    written(lab, own_csv())
    again = brought(lab, own_csv().replace("INV-7,", ","))
    assert again.summary["counts"] == {"known": 41}, "by tag, or by serial"
    confirm(row=again, by=lab.owner, now=T0)
    assert Asset.objects.count() == 41


def test_netbox_devices(lab: SmallLab) -> None:
    row = written(lab, NETBOX, Options(bought_on="2024-03-01"))
    assert row.summary["origin"] == "NetBox"
    assert row.summary["ignored"] == ["Tenant", "IP Address"]
    assert row.summary["counts"] == {"new": 3, "left_out": 1}
    assert row.summary["elsewhere"] == ["Attic"]
    card = Asset.objects.get(tag="INV-1")
    assert card.parent is not None
    assert (card.kind, card.parent.name, card.state, card.serial) == ("gpu", "gpu-01", "use", "SN1")
    assert card.model is not None
    assert Asset.objects.get(tag="INV-0").site == lab.site
    switch = Asset.objects.get(tag="INV-3")
    assert (switch.kind, switch.state, switch.location, switch.site) == (
        "network",
        "stock",
        "Attic",
        None,
    )


def test_the_file_that_snipe_its_importer_takes(lab: SmallLab) -> None:
    """The header is that of its sample file, the line is ours."""
    head = (
        "Company,Name,Asset Tag,Category,Supplier,Manufacturer,Location,Order Number,Model,Model "
        "Notes,Model Number,"
        "Asset Notes,Purchase Date,Purchase Cost,Checkout Type,Checked Out To: Username,Checked "
        "Out To: First Name,"
        "Checked Out To: Last Name,Checked Out To: Email,Checked Out To: Location"
    )
    line = (
        "Lab,Card 1,INV-1,Graphics Cards,Acme,NVIDIA,Room "
        "1,PO-7,A100-SXM4-80GB,,,spare,2024-03-01,11250.00,,,,,,"
    )
    row = written(lab, f"{head}\n{line}\n", Options(currency="EUR"))
    assert row.summary["origin"] == "Snipe-IT"
    (asset,) = lab.lab.assets.all()
    assert (asset.name, asset.tag, asset.kind, asset.note, asset.supplier) == (
        "Card 1",
        "INV-1",
        "gpu",
        "spare",
        "Acme",
    )
    assert asset.model is not None


def test_snipe_it_assets_and_a_figure_per_terabyte(lab: SmallLab) -> None:
    row = written(lab, SNIPE_IT, Options(currency="EUR"))
    assert row.summary["origin"] == "Snipe-IT"
    card, disk = Asset.objects.get(tag="INV-1"), Asset.objects.get(tag="INV-2")
    assert (card.price_ucurrency, card.currency, str(card.warranty_until)) == (
        11_250_000_000,
        "EUR",
        "2027-03-01",
    )
    assert (card.state, disk.state, disk.kind) == ("use", "stock", "storage")
    opening = LifecycleEvent.objects.get(asset=disk)
    assert opening.figure is not None
    assert opening.figure.unit == "per_tb"
    assert opening.total_ug == opening.figure.total_ug * 16
    assert opening.low_ug == opening.figure.low_ug * 16


def test_a_figure_per_terabyte_of_unknown_size_is_unknown_and_not_zero(lab: SmallLab) -> None:
    row = brought(lab, "name,kind,model,bought_on\nspare,storage,Seagate Exos X16,2024-03-01\n")
    told = row.summary["rows"][0]
    assert (told["embodied_ug"], told["by"]) == (None, "")
    assert "capacity_tb is missing" in told["why"]
    row = brought(
        lab, "name,kind,model,bought_on,capacity_tb\nspare,storage,Seagate Exos X16,2024-03-01,16\n"
    )
    assert row.summary["rows"][0]["embodied_ug"] == 21_344 * KG // 1000
    other = brought(lab, "name,kind,bought_on\nchair,other,2024-03-01\n").summary
    assert other["by"] == {"unknown": 1}
    assert other["rows"][0]["embodied_ug"] is None


def test_out_and_in_again_is_the_same_register(lab: SmallLab) -> None:
    written(lab, own_csv())
    extra = (
        "name,kind,serial,note,bought_on,in_use_since,embodied_kg,embodied_low_kg,"
        "embodied_high_kg,embodied_source,"
        "embodied_end_of_life_kg,embodied_includes_end_of_life,second_hand,amortisation,"
        "retired_on,disposed_on,life_years\n"
        "'=1+1,gpu,S-1,'@note,2024-03-01T07:00Z,2024-05-01,163.123456789,100,200,'-our "
        "own,1.5,yes,,sci,,,4.5\n"
        "used,gpu,S-2,,2024-03-01,,,,,,,,yes,,,,4\n"
        "gone,server,S-3,,2020-03-01,2020-03-02,unknown,,,,,,no,,2024-01-01,2024-02-01,0.123456\n"
    )
    written(lab, extra)
    first = as_csv(lab)
    elsewhere = small_lab(name="Elsewhere")
    row = written(elsewhere, first)
    assert row.summary["counts"] == {"new": 44}
    assert sorted(as_csv(elsewhere).splitlines()) == sorted(first.splitlines())
    assert Asset.objects.get(lab=elsewhere.lab, serial="S-1").name == "=1+1"
    told = [
        list(
            LifecycleEvent.objects.filter(asset__lab=each.lab)
            .order_by("asset__serial", "hour", "kind")
            .values_list(
                "asset__serial",
                "kind",
                "hour",
                "total_ug",
                "low_ug",
                "end_of_life_ug",
                "source",
                "life_hours",
                "figure",
            )
        )
        for each in (lab, elsewhere)
    ]
    assert told[0] == told[1]
    borne = [
        sorted(
            EmbodiedCharge.objects.filter(lab=each.lab).values_list(
                "from_hour", "to_hour", "kind", "amount_ug"
            )
        )
        for each in (lab, elsewhere)
    ]
    assert borne[0] == borne[1]


@pytest.mark.parametrize(
    ("line", "field", "words"),
    [
        ("a,toaster,,,2024-03-01,,,", "kind", "not a kind"),
        ("a,gpu,,,soon,,,", "bought_on", "not a day"),
        ("a,gpu,,,,,,", "bought_on", "purchase date is missing"),
        ("a,gpu,,,2999-03-01,,,", "at", "in the future"),
        ("a,gpu,,12.50,2024-03-01,,,", "currency", "currency of the price is missing"),
        ("a,gpu,,\"1,250\",2024-03-01,,,", "price", "not a price"),
        ("a,gpu,,,2024-03-01,nosuch,,", "owner", "No project"),
        ("a,gpu,,,2024-03-01,,nowhere,", "site", "No site"),
        ("a,gpu,,,2024-03-01,,,nothing", "parent", "no 'nothing' to be built into"),
        ("a,gpu,,,2024-03-01,,,a", "parent", "not built into itself"),
        (",gpu,,,2024-03-01,,,", "name", "needs a name"),
        ("a,gpu,,,2024-03-01,,,,more", "", "more cells"),
    ],
)  # fmt: skip
def test_a_wrong_line_is_named_with_its_field_and_nothing_is_written(
    lab: SmallLab, line: str, field: str, words: str
) -> None:
    text = f"name,kind,model,price,bought_on,owner,site,parent\ngood,gpu,,,2024-03-01,,,\n{line}\n"
    row = brought(lab, text)
    wrong = row.summary["wrong"][0]
    assert (wrong["line"], wrong["field"]) == (3, field)
    assert words in wrong["message"]
    assert wrong["hint"] or field == ""
    with pytest.raises(FileRefused, match="Line 3"):
        confirm(row=row, by=lab.owner, now=T0)
    assert not Asset.objects.exists()


def test_what_is_built_into_one_another_is_refused_and_order_does_not_matter(lab: SmallLab) -> None:
    head = "name,kind,tag,bought_on,parent\n"
    ring = brought(lab, f"{head}a,gpu,1,2024-03-01,2\nb,gpu,2,2024-03-01,1\n")
    assert [told["field"] for told in ring.summary["wrong"]] == ["parent", "parent"]
    twice = brought(lab, f"{head}a,gpu,1,2024-03-01,\nb,gpu,1,2024-03-01,\n")
    assert "stands on line 2 already" in twice.summary["wrong"][0]["message"]
    written(
        lab,
        (
            f"{head}card,gpu,3,2024-03-01,board\nboard,other,2,2024-03-01,box\n"
            "box,server,1,2024-03-01,\n"
        ),
    )
    assert Asset.objects.get(tag="3").parent == Asset.objects.get(tag="2")
    assert Asset.objects.get(tag="2").parent == Asset.objects.get(tag="1")
    written(lab, f"{head}other,gpu,4,2024-03-01,box\n")
    assert Asset.objects.get(tag="4").parent == Asset.objects.get(tag="1")


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (b"", InvalidInput, "empty"),
        (b"name,kind\n", InvalidInput, "has no rows"),
        (b",,\n", InvalidInput, "names no columns"),
        (b"\x89PNG\r\n\x1a\n\x00", InvalidInput, "a picture"),
        (b"name,kind\na\x00,gpu\n", InvalidInput, "invalid character"),
        (b'name,kind\n"a,gpu\n', InvalidInput, "Line 2 cannot be read"),
        (b"name,kind\n" + b"a,gpu\n" * 20_001, TooLarge, "more than 20000 rows"),
        (b"x" * (8 << 20) + b"yz", TooLarge, "8 MiB"),
    ],
    ids=[
        "empty",
        "no lines",
        "no headings",
        "no text",
        "NUL",
        "quote",
        "rows",
        "bytes",
    ],
)
def test_a_wrong_file_is_refused(
    lab: SmallLab, content: bytes, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        upload(lab=lab.lab, file_name="x", content=content, options=NONE, by=None, now=T0)
    assert not RegisterImport.objects.exists()


def test_a_semicolon_file_of_another_encoding_and_german_days(lab: SmallLab) -> None:
    content = "Name;kind;bought_on\nKärtchen;gpu;1.3.2024\n".encode("utf-16")
    row = upload(
        lab=lab.lab, file_name="C:\\x\\gpus.csv", content=content, options=NONE, by=None, now=T0
    )
    assert row.summary["rows"][0]["name"] == "Kärtchen"
    assert row.file_name == "gpus.csv"


def test_a_long_file_is_a_job_with_progress(lab: SmallLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.assets.services.csv_import.SYNCHRONOUS_LINES", 10)
    row = brought(lab, own_csv())
    assert (row.state, row.lines, row.lines_done) == ("reading", 41, 0)
    with pytest.raises(Conflict, match="state reading"):
        confirm(row=row, by=lab.owner, now=T0)
    run_until_idle(worker="test")
    row.refresh_from_db()
    assert (row.state, row.lines_done) == ("read", 41)
    confirm(row=row, by=lab.owner, now=T0)
    assert not Asset.objects.exists()
    run_until_idle(worker="test")
    row.refresh_from_db()
    assert (row.state, row.content) == ("done", "")
    assert Asset.objects.count() == 41


def test_what_became_wrong_since_it_was_read_is_refused_whole(lab: SmallLab) -> None:
    row = brought(lab, "name,kind,bought_on,owner\na,gpu,2024-03-01,demo\n")
    lab.lab.projects.all().update(slug="renamed")
    with pytest.raises(FileRefused, match="No project 'demo'"):
        confirm(row=row, by=lab.owner, now=T0)
    row.refresh_from_db()
    assert row.state == "read"
    assert not Asset.objects.exists()


def test_options_are_checked(lab: SmallLab) -> None:
    for options, field in (
        (Options(currency="money"), "currency"),
        (Options(bought_on="soon"), "bought_on"),
    ):
        with pytest.raises(InvalidInput) as caught:
            brought(lab, own_csv(), options)
        assert caught.value.field == field


def test_another_labs_things_are_unknown(lab: SmallLab) -> None:
    other: Any = small_lab(name="Other")
    written(other, own_csv())
    row = brought(lab, "name,kind,tag,bought_on,parent\na,gpu,INV-1,2024-03-01,INV-0\n")
    assert "no 'INV-0'" in row.summary["wrong"][0]["message"]
