"""The mail server: what LABCARBON_EMAIL_URL may say, and a mail that goes through a real
conversation on loopback.
"""

import socketserver
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.mail import EmailMessage

from labcarbon.env import ConfigurationError, Mail, parse_mail_url, read_environment

FROM = "LabCarbon <labcarbon@example.org>"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("smtp://mail.example.org", ("mail.example.org", 587, "", "", "starttls")),
        (
            "smtps://ada:p%40ss%2F@mail.example.org",
            ("mail.example.org", 465, "ada", "p@ss/", "implicit"),
        ),
        (
            "smtp://ada%40example.org:x@mail.example.org:25",
            ("mail.example.org", 25, "ada@example.org", "x", "starttls"),
        ),
        ("smtp://127.0.0.1:25", ("127.0.0.1", 25, "", "", "none")),
        ("smtp://[::1]:25", ("::1", 25, "", "", "none")),
    ],
)
def test_parse_mail_url(url: str, expected: tuple[object, ...]) -> None:
    found = parse_mail_url(url, FROM)
    assert (found.host, found.port, found.user, found.password, found.tls) == expected
    assert found.is_enabled
    assert "p@ss" not in repr(found)


def test_none_is_set() -> None:
    assert parse_mail_url("", "") == Mail()
    assert not Mail().is_enabled


@pytest.mark.parametrize(
    ("url", "sender", "words"),
    [
    ("mail.example.org", FROM, "must have the form"),
    ("http://mail.example.org", FROM, "must have the form"),
    ("smtp://", FROM, "must have the form"), ("smtp://u:sec/ret@host", FROM, "EMAIL_URL"),
    ("smtp://host/x", FROM, "must end with the port"),
    ("smtp://host?tls=no", FROM, "must end with the port"), ("smtp://host:0x", FROM, "port"),
    ("smtp://host", "", "EMAIL_FROM"), ("smtp://host", "nobody", "EMAIL_FROM"),
    ("smtp://host", "a@example.org\nBcc: b@example.org", "EMAIL_FROM"),
    ("", FROM, "must have the form"),
],
)  # fmt: skip
def test_an_invalid_url_is_reported_without_its_password(url: str, sender: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as told:
        parse_mail_url(url, sender)
    assert "sec" not in str(told.value).replace("LABCARBON", "")


def test_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("LABCARBON_DATA", str(tmp_path))
    assert not read_environment().mail.is_enabled
    (tmp_path / "email_url").write_text("smtps://u:p@mail.example.org\n")
    monkeypatch.setenv("LABCARBON_EMAIL_FROM", FROM)
    assert read_environment().mail == Mail("mail.example.org", 465, "u", "p", "implicit", FROM)
    monkeypatch.setenv("LABCARBON_EMAIL_URL", "smtp://127.0.0.1:25")
    assert read_environment().mail.port == 25
    monkeypatch.delenv("LABCARBON_EMAIL_FROM")
    with pytest.raises(ConfigurationError, match="LABCARBON_EMAIL_FROM"):
        read_environment()


class _Conversation(socketserver.StreamRequestHandler):
    """As much of RFC 5321 as one mail takes."""

    def handle(self) -> None:
        said: list[str] = self.server.said  # type: ignore[attr-defined]
        self._answer("220 ready")
        is_text = False
        for raw in self.rfile:
            line = raw.decode().rstrip("\r\n")
            said.append(line)
            if is_text:
                is_text = line != "."
                if not is_text:
                    self._answer("250 taken")
            elif line.upper() == "DATA":
                is_text = True
                self._answer("354 go on")
            else:
                self._answer("221 bye" if line.upper() == "QUIT" else "250 well")

    def _answer(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@pytest.fixture
def server() -> Iterator[socketserver.TCPServer]:
    with socketserver.TCPServer(("127.0.0.1", 0), _Conversation) as made:
        made.said = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def test_a_mail_is_sent_to_the_configured_server(server: Any, settings: Any) -> None:
    found = parse_mail_url(f"smtp://127.0.0.1:{server.server_address[1]}", FROM)
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = (
        found.host,
        found.port,
        found.tls == "starttls",
    )
    assert EmailMessage("A plan", "Two artifacts", found.sender, ["ana@example.org"]).send() == 1
    said = server.said
    assert any(
        "<labcarbon@example.org>" in line and line.lower().startswith("mail from:") for line in said
    )
    assert "rcpt TO:<ana@example.org>" in said
    assert "Subject: A plan" in said
    assert "From: LabCarbon <labcarbon@example.org>" in said
