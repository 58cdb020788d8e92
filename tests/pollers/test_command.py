"""`manage.py asset_sources`: services and rules of the pages; no token as an argument."""

import io
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from apps.accounts.models import AuditEntry
from apps.assets.models import Asset
from apps.pollers.models import AssetSource, PolledRow
from apps.pollers.services.sources import switch_source
from tests.builders import T0, SmallLab, small_lab
from tests.fakes.asset_servers import APP_TOKEN, TOKEN, fake_assets
from tests.pollers.conftest import Start


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("asset_sources", *arguments, stdout=out)
    return out.getvalue()


def add(address: str, *more: str, system: str = "netbox") -> str:
    return run(
        "add", "--system", system, "--name", "List", "--address", address,
        "--bought-on", "2024-05-01", *more,
    )  # fmt: skip


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that sets the standard input."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_added_listed_tested_polled_and_removed(lab: SmallLab, stdin: Any) -> None:
    with fake_assets("netbox") as fake, override_settings(ASSET_SOURCES=(fake.address,)):
        stdin(f"{TOKEN}\n")
        assert "was added" in add(fake.address)
        source = AssetSource.objects.get()
        assert TOKEN not in source.token
        listed = run("list")
        assert f"{source.pk} List: NetBox {fake.address}, propose, not polled yet" in listed
        assert "returns 5 rows" in run("test", "List")
        assert not PolledRow.objects.exists()
        assert "5 rows, 3 proposed" in run("poll", str(source.pk))
        assert "UTC" in run("list")
        assert not Asset.objects.exists()
        assert "was removed" in run("remove", str(source.pk))
        assert "no asset sources" in run("list")
    source.refresh_from_db()
    assert (source.token, source.removed_us is not None) == ("", True)
    entries = AuditEntry.objects.filter(action__startswith="asset_source.").order_by("pk")
    assert [entry.action for entry in entries] == ["asset_source.added", "asset_source.removed"]
    assert not any(TOKEN in str(entry.details) for entry in entries)


def test_tokens_are_read_from_private_files(lab: SmallLab, tmp_path: Path) -> None:
    token, app_token = tmp_path / "token", tmp_path / "app"
    token.write_text(f"{TOKEN}\n")
    app_token.write_text(APP_TOKEN)
    files = ("--token-file", str(token), "--app-token-file", str(app_token))
    app_token.chmod(0o600)
    with fake_assets("glpi") as fake, override_settings(ASSET_SOURCES=(fake.address,)):
        token.chmod(0o640)
        with pytest.raises(CommandError, match="chmod 600"):
            add(fake.address, *files, system="glpi")
        token.chmod(0o600)
        add(fake.address, *files, system="glpi")
        assert "7 rows" in run("test", "List")
    with pytest.raises(CommandError, match="cannot be read"):
        add(fake.address, "--token-file", str(tmp_path / "none"))
    with pytest.raises(CommandError, match=r"Other users can read|cannot be read"):
        add(fake.address, "--token-file", str(tmp_path))


def test_a_token_is_no_argument(lab: SmallLab) -> None:
    with pytest.raises(CommandError, match="unrecognized arguments"):
        add("https://netbox.example.org", "--token", TOKEN)


def test_the_rules_of_the_page_apply(lab: SmallLab, stdin: Any) -> None:
    stdin(TOKEN)
    with pytest.raises(CommandError, match="LABCARBON_ASSET_SOURCES"):
        add("https://netbox.example.org")
    with override_settings(ASSET_SOURCES=("https://netbox.example.org",)):
        stdin("")
        with pytest.raises(CommandError, match="Enter a token"):
            add("https://netbox.example.org")
        stdin("two words")
        with pytest.raises(CommandError, match="without spaces"):
            add("https://netbox.example.org")
    assert not AssetSource.objects.exists()


def test_failures_are_reported_and_end_with_an_error(start: Start, lab: SmallLab) -> None:
    fake, source = start()
    fake.fault = (403, {}, b"")
    with pytest.raises(CommandError, match="refuses the token"):
        run("test", "Hardware list")
    with pytest.raises(CommandError, match="refuses the token"):
        run("poll", "Hardware list")
    assert "problem: " in run("list")
    switch_source(source=source, enabled=False, by=lab.owner, now=T0)
    with pytest.raises(CommandError, match="disabled"):
        run("poll", "Hardware list")


def test_a_stopped_source_is_polled_again(start: Start) -> None:
    fake, source = start()
    run("poll", str(source.pk))
    rows, fake.rows = fake.rows, fake.rows[:1]
    with pytest.raises(CommandError, match="rows are missing"):
        run("poll", str(source.pk))
    fake.rows = rows
    assert "5 rows" in run("poll", str(source.pk))


def test_sources_and_labs_are_named(start: Start, lab: SmallLab) -> None:
    _, source = start()
    with pytest.raises(CommandError, match=f"{source.pk} Hardware list"):
        run("remove", "Other")
    other = small_lab(name="Second")
    with pytest.raises(CommandError, match="--lab"):
        run("list")
    assert "Hardware list" in run("--lab", lab.lab.slug, "list")
    with pytest.raises(CommandError, match="no asset sources"):
        run("--lab", other.lab.slug, "remove", str(source.pk))
