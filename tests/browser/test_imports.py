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
    for scheme, options in (("light", {}), ("dark", {}), ("320", NARROW), ("print", {})):
        page = visit(color_scheme="dark" if scheme == "dark" else "light", **options)
        for name, address in addresses.items():
            tab = page.go(address)
            if scheme == "print":
                tab.emulate_media(media="print")
            tab.screenshot(path=str(Path(folder) / f"{name}-{scheme}.png"), full_page=True)
