"""The two marks of a demo: a file in its data directory, and a number in its database file. A copy
or a backup of the database keeps the number.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

DATABASE = "labcarbon.sqlite3"
MARK = "made-up-data.txt"
GENERATED = "generated.json"  # written when the lab is complete
APPLICATION_ID = 0x4C434465
_MAGIC = b"SQLite format 3\x00"
_OFFSET = 68  # of the application id: https://www.sqlite.org/fileformat.html
_TEXT = """The data in this folder is made up: it belongs to a LabCarbon demo (make demo).
A server without LABCARBON_DEMO=1 does not start with it. To delete the demo, delete the folder.
"""


def is_demo_database(path: Path) -> bool:
    """Return whether a database file is marked. A missing or unreadable file is not."""
    try:
        with path.open("rb") as file:
            header = file.read(_OFFSET + 4)
    except OSError:
        return False
    number = int.from_bytes(header[_OFFSET:], "big")
    return header.startswith(_MAGIC) and number == APPLICATION_ID


def is_demo_folder(folder: Path) -> bool:
    """Return whether a data directory has one of the marks."""
    return (folder / MARK).is_file() or is_demo_database(folder / DATABASE)


def is_foreign_database(path: Path) -> bool:
    """Return whether there is a database without the mark."""
    return path.exists() and not is_demo_database(path)


def mark_folder(folder: Path) -> None:
    """Write the file of a demo into ``folder``."""
    (folder / MARK).write_text(_TEXT, encoding="utf-8")


def create_database(folder: Path) -> None:
    """Create a marked database without tables. One that exists stays."""
    path = folder / DATABASE
    if path.exists():
        return
    path.touch(mode=0o600)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
