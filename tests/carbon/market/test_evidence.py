"""Documents are recognised from their content."""

import pytest

from apps.carbon.market.evidence import MOST_EVIDENCE_BYTES, check_file
from apps.core.errors import InvalidInput, TooLarge

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


@pytest.mark.parametrize(
    ("name", "content", "stored", "content_type"),
    [
        ("a.PDF", b"%PDF-1.7 ...", "a.PDF", "application/pdf"),
        ("C:\\files\\a.png", PNG, "a.png", "image/png"),
        ("/tmp/a.jpeg", b"\xff\xd8\xff\xe0", "a.jpeg", "image/jpeg"),
        ("a.html", b"%PDF-1.7", "a.html.pdf", "application/pdf"),
        ("a\u202efdp.exe", b"%PDF-1.7", "afdp.exe.pdf", "application/pdf"),
        ("", b"%PDF-1.7", "attachment.pdf", "application/pdf"),
    ],
)
def test_the_type_is_that_of_the_content(
    name: str, content: bytes, stored: str, content_type: str
) -> None:
    file = check_file(name, content)
    assert (file.name, file.content_type, file.content) == (stored, content_type, content)


@pytest.mark.parametrize(
    "content", [b"", b"text", b"<script>", b"<svg/>", b"a\x00b", b"\xff\xfe", b"MZ\x90\x00"]
)
def test_refused(content: bytes) -> None:
    with pytest.raises(InvalidInput) as error:
        check_file("a.pdf", content)
    assert (error.value.field, bool(error.value.hint)) == ("evidence", True)


def test_size() -> None:
    content = b"%PDF-1.7".ljust(MOST_EVIDENCE_BYTES, b" ")
    check_file("a.pdf", content)
    with pytest.raises(TooLarge):
        check_file("a.pdf", content + b" ")
