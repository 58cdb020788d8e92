"""Documents are recognised from their content."""

import pytest

from apps.carbon.market.evidence import MOST_EVIDENCE_BYTES, check_file
from apps.core.errors import InvalidInput, TooLarge


@pytest.mark.parametrize(
    ("name", "content", "content_type"),
    [
        ("a.PDF", b"%PDF-1.7 ...", "application/pdf"),
        ("C:\\files\\a.png", b"\x89PNG\r\n\x1a\n...", "image/png"),
        ("/tmp/a.jpeg", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("a.csv", "id,Größe\r\n1,2\n".encode(), "text/plain"),
    ],
)
def test_types(name: str, content: bytes, content_type: str) -> None:
    file = check_file(name, content)
    assert (file.content_type, file.content) == (content_type, content)
    assert "/" not in file.name
    assert "\\" not in file.name


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.pdf", b""),
        ("a.pdf", b"text"),
        ("a.txt", b"%PDF-1.7"),
        ("a.html", b"<script>"),
        ("a.svg", b"<svg/>"),
        ("a.txt", b"a\x00b"),
        ("a.txt", b"\xff\xfe"),
        ("a.exe", b"MZ\x90\x00"),
        ("", b"text"),
        ("a\u202e.pdf", b"%PDF-1.7"),
    ],
)
def test_refused(name: str, content: bytes) -> None:
    with pytest.raises(InvalidInput) as error:
        check_file(name, content)
    assert (error.value.field, bool(error.value.hint)) == ("evidence", True)


def test_size() -> None:
    check_file("a.txt", b"a" * MOST_EVIDENCE_BYTES)
    with pytest.raises(TooLarge):
        check_file("a.txt", b"a" * (MOST_EVIDENCE_BYTES + 1))
