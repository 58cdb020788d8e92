"""Lines that stand for several things: by a quantity, or by "4x …". Pure."""

import re
from collections.abc import Mapping
from itertools import count, takewhile

from apps.assets.spreadsheets import cells
from apps.assets.spreadsheets.csv_reader import Line
from apps.core.errors import InvalidInput


def things_of(line: Line) -> list[Line]:
    """Return a line for each thing that a line stands for: by its quantity, or "4x …".

    Each has the inventory number with ".1", ".2", … and its own serial number. Raises InvalidInput
    if quantity, text and serial numbers contradict.
    """
    fields = dict(line.cells)
    in_text = {1}
    for field in ("name", "model"):
        times, rest = cells.times_in(fields.get(field, ""))
        if times > 1:
            fields[field] = rest
            in_text.add(times)
    text = fields.pop("quantity", "")
    number = cells.quantity_of(text) if text else max(in_text)
    if len(in_text) > 2 or (len(in_text) == 2 and number not in {0, max(in_text)}):
        raise InvalidInput(
            f"The quantity is {text or min(in_text - {1})}, the text says {max(in_text)}.",
            field="quantity",
            hint="Write the same number, or leave one of them out.",
        )
    if number == 1:
        return [Line(line.number, fields)]
    serials = [part for part in re.split(r"[,;/|\s]+", fields.get("serial", "")) if part]
    if number and serials and len(serials) != number:
        raise InvalidInput(
            f"{number} things, but {len(serials)} serial numbers.",
            field="serial",
            hint="Write one serial number for each, separated by commas, or none.",
        )
    return [
        Line(line.number, _numbered(fields, item, serials[item - 1] if serials else ""))
        for item in range(1, number + 1)
    ]


def _numbered(fields: dict[str, str], item: int, serial: str) -> dict[str, str]:
    """Return the fields of one of several things."""
    own = fields | {"serial": serial, "model": fields.get("model") or fields.get("name", "")}
    if own.get("tag"):
        own["tag"] = f"{own['tag']}.{item}"
    if own.get("name"):
        own["name"] = f"{own['name']} {item}"
    return {name: text for name, text in own.items() if text}


def is_several(line: Line) -> bool:
    """Return whether a line stands for several things. A wrong quantity counts as one."""
    try:
        return len(things_of(line)) > 1
    except InvalidInput:
        return False


def extra_things(tag: str, number: int, registered: Mapping[str, int]) -> dict[str, int]:
    """Return the things of a line with this inventory number that are ``registered`` (asset by
    inventory number) beyond its quantity.
    """
    first = 1 if number == 1 else number + 1
    numbered = (f"{tag}.{item}" for item in count(first))
    return {text: registered[text] for text in takewhile(registered.__contains__, numbered)}
