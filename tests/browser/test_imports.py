"""The pages of an import, which only an uploaded file leads to: mapping and preview."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.assets.hardware_list import spanish_csv, xlsx
from tests.browser.looks import NARROW, Look, look_at
from tests.browser.visit import Visit

FILES = {"inventar.xlsx": xlsx, "inventario.txt": spanish_csv}
AMBIGUOUS = "Gerät;Modell;Kaufdatum;Preis\nKarte;RTX 3090;03/04/2024;1.500\n"


def mapping_address(page: Visit, name: str, content: bytes) -> str:
    """Upload a file in the browser; return the path of its mapping page."""
    tab = page.go("/assets/import/")
    file = {"name": name, "mimeType": "application/octet-stream", "buffer": content}
    tab.set_input_files("input[name=file]", file)
    tab.fill("input[name=currency]", "EUR")
    tab.click("main button.button[type=submit]")
    tab.wait_for_url("**/mapping/")
    return str(tab.url.removeprefix(page.url))


def assert_fine(look: Look) -> None:
    assert look.complaints == []
    assert not any(look.barriers.values()), look.barriers
    assert look.loose == []
    assert look.unseen == []
    assert look.width <= NARROW["viewport"]["width"]


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_mapped_and_previewed(visit: Callable[..., Visit], name: str) -> None:
    page = visit(color_scheme="dark", **NARROW)
    address = mapping_address(page, name, FILES[name]())
    assert_fine(look_at(page, address))
    tab = page.go(address)
    tab.click("main button.button[type=submit]")
    tab.wait_for_selector('[data-new="122"]')
    preview = tab.url.removeprefix(page.url)
    assert_fine(look_at(page, preview))
    take_pictures(visit, {f"{name}-mapping": address, f"{name}-preview": preview})


def test_dates_and_numbers_are_asked_about(visit: Callable[..., Visit]) -> None:
    page = visit(color_scheme="dark", **NARROW)
    address = mapping_address(page, "liste.csv", AMBIGUOUS.encode("cp1252"))
    assert_fine(look_at(page, address))
    tab = page.go(address)
    tab.click("text=3 April 2024")
    tab.click("text=1\u202f500")
    tab.click("main button.button[type=submit]")
    tab.wait_for_selector('[data-new="1"]')
    assert "2024-04-03" in tab.content()
    take_pictures(visit, {"ambiguous-mapping": address})


def take_pictures(visit: Callable[..., Visit], addresses: dict[str, str]) -> None:
    folder = os.environ.get("PICTURES")
    if not folder:
        return
    for scheme, options in (
        ("light", {}),
        ("dark", {}),
        ("320", NARROW),
        ("375", {"viewport": {"width": 375, "height": 700}}),
        ("print", {}),
    ):
        page = visit(color_scheme="dark" if scheme == "dark" else "light", **options)
        for name, address in addresses.items():
            tab = page.go(address)
            if scheme == "print":
                tab.emulate_media(media="print")
            tab.screenshot(path=str(Path(folder) / f"{name}-{scheme}.png"), full_page=True)


UNKNOWN_ROWS = (
    "name,kind,tag,bought_on,embodied_kg\n"
    "chair,other,BR-1,2024-03-01,\n"
    "a very long name of a thing that somebody typed into one cell of the sheet,other,BR-2,"
    "2024-03-01,unknown\n"
)
WRONG_ROWS = "name,kind,tag,bought_on\na,toaster,BR-7,2024-03-01\nb,gpu,BR-8,soon\n"


def pasted_address(page: Visit, lines: str) -> str:
    """Paste rows in the browser; return the path of their preview."""
    tab = page.go("/assets/import/")
    tab.fill("textarea[name=lines]", lines)
    tab.click("main button.button[type=submit]")
    tab.wait_for_selector("#import, h1[data-state]")
    return str(tab.url.removeprefix(page.url))


def test_preview_result_undo_and_errors_are_fine(visit: Callable[..., Visit]) -> None:
    page = visit(color_scheme="dark", **NARROW)
    price = pasted_address(page, "Gerät;Modell;Kaufdatum;Preis\nK;RTX 3090;13/04/2024;12,50\n")
    wrong = pasted_address(page, WRONG_ROWS)
    preview = pasted_address(page, UNKNOWN_ROWS)
    reading = pasted_address(
        page, "name,kind,bought_on\n" + "".join(f"x{i},gpu,2024-01-01\n" for i in range(501))
    )
    for address in (price, wrong, preview, reading):
        assert_fine(look_at(page, address))
    take_pictures(
        visit, {"price": price, "wrong": wrong, "unknown-preview": preview, "reading": reading}
    )
    tab = page.go(preview)
    tab.click("main button[value=register]")
    tab.wait_for_selector('[data-state="done"]')
    changed = pasted_address(page, UNKNOWN_ROWS.replace("chair", "stool"))
    for address in (preview, changed, f"{preview}undo/", "/assets/imports/"):
        assert_fine(look_at(page, address))
    tab = page.go("/assets/imports/")
    tab.set_viewport_size(NARROW["viewport"])
    fits = "[data-import] a[href$='undo/']"
    edge = tab.eval_on_selector(fits, "link => link.getBoundingClientRect().right")
    assert edge <= tab.eval_on_selector(".wrap", "wrap => wrap.getBoundingClientRect().right")
    take_pictures(
        visit, {"done": preview, "undo": f"{preview}undo/", "imports": "/assets/imports/"}
    )
    take_pictures(visit, {"changed": changed})
    tab = page.go(changed)
    tab.click("main button[value=register]")
    tab.wait_for_selector('[data-state="done"]')
    assert_fine(look_at(page, f"{preview}undo/"))
    take_pictures(visit, {"undo-refused": f"{preview}undo/", "undo-changed": f"{changed}undo/"})
    tab = page.go(f"{changed}undo/")
    tab.click("main button[value=undo]")
    tab.wait_for_url("**/assets/imports/")
    tab = page.go(f"{preview}undo/")
    tab.click("main button[value=undo]")
    tab.wait_for_url("**/assets/imports/")
    assert_fine(look_at(page, f"{preview}redo/"))
