"""Providers are added, changed and removed; tokens are encrypted and are in no entry of the log."""

import pytest

from apps.accounts.models import AuditEntry
from apps.carbon.providers.models import GridProvider
from apps.carbon.providers.readings import ProviderError
from apps.carbon.providers.services import (
    FETCH,
    ProviderInput,
    add_provider,
    change_token,
    connection_of,
    providers_of,
    remove_provider,
    switch_provider,
)
from apps.core.errors import InvalidInput
from apps.core.models import Job
from tests.builders import T0, SmallLab


def add(lab: SmallLab, kind: str = "electricity_maps", zone: str = "DE", token: str = "abc"):  # type: ignore[no-untyped-def]
    return add_provider(lab=lab.lab, values=ProviderInput(kind, zone, token), by=lab.owner, now=T0)


def test_added_changed_and_removed(lab: SmallLab) -> None:
    row = add(lab, token="token-one")
    assert "token-one" not in row.token
    assert connection_of(row).token == "token-one"
    assert Job.objects.filter(kind=FETCH, key=str(row.pk)).exists()
    change_token(provider=row, token="token-two", by=lab.owner, now=T0)
    assert connection_of(row).token == "token-two"
    switch_provider(provider=row, enabled=False, by=lab.owner, now=T0)
    remove_provider(provider=row, by=lab.owner, now=T0)
    row.refresh_from_db()
    assert (row.token, row.enabled) == ("", False)
    assert list(providers_of(lab.lab)) == []
    entries = AuditEntry.objects.filter(action__startswith="grid_provider.").order_by("pk")
    assert [entry.action.partition(".")[2] for entry in entries] == [
        "added", "changed", "changed", "removed",
    ]  # fmt: skip
    assert not any("token-" in str(entry.details) for entry in entries)
    add(lab, "energy_charts", token="")


@pytest.mark.parametrize(
    ("kind", "zone", "token", "field"),
    [
        ("watttime", "DE", "abc", "kind"),
        ("electricity_maps", "DE", "", "token"),
        ("electricity_maps", "DE", "two words", "token"),
        ("electricity_maps", "DE", "line\r\nX-Header: 1", "token"),
        ("electricity_maps", "DE", "x" * 5000, "token"),
        ("electricity_maps", "Atlantis", "abc", "zone"),
        ("electricity_maps", "", "abc", "zone"),
        ("energy_charts", "DE", "abc", "token"),
        ("uk_carbon_intensity", "DE", "", "zone"),
        ("uk_carbon_intensity", "GB", "", "kind"),
    ],
)
def test_impossible_providers(lab: SmallLab, kind: str, zone: str, token: str, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        add(lab, kind, zone, token)
    assert refused.value.field == field
    assert not GridProvider.objects.exists()


def test_a_zone_has_one_provider(lab: SmallLab) -> None:
    add(lab)
    with pytest.raises(InvalidInput) as refused:
        add(lab, "energy_charts", "Germany", "")
    assert refused.value.field == "zone"
    add(lab, "energy_charts", "FR", "")


def test_a_token_of_removed_peppers(lab: SmallLab) -> None:
    row = add(lab)
    row.token = "9:gAAAA"
    with pytest.raises(ProviderError, match="cannot be decrypted"):
        connection_of(row)
