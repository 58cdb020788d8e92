"""The basis of a lab: what a change of it means for each site, and the change itself."""

from dataclasses import dataclass

from django.db import transaction

from apps.accounts import audit
from apps.accounts.choices import Act, Basis
from apps.accounts.models import Lab, User
from apps.carbon.factor_levels import Level, levels_of_zones
from apps.carbon.services import apply_factors
from apps.core.errors import InvalidInput
from apps.fleet.models import Site
from apps.fleet.selectors import sites_of, zones_at


@dataclass(frozen=True)
class SiteBasis:
    """A site with the factor that applies in an hour on the lab's basis, and on another one."""

    site: Site
    zone: str
    before: Level | None
    after: Level | None


def check_basis(text: str) -> Basis:
    """Return a basis. Raises InvalidInput for an unknown one."""
    if text not in Basis.values:
        raise InvalidInput(
            f"{text[:40]!r} is not a basis.",
            field="basis",
            hint=f"Choose {' or '.join(Basis.values)}.",
        )
    return Basis(text)


def preview_basis(lab: Lab, basis: str, hour: int) -> list[SiteBasis]:
    """Return the sites of a lab with their factors in an hour before and after a change."""
    zone_of_site = zones_at(lab, hour)
    zones = set(zone_of_site.values())
    before, after = (levels_of_zones(lab, zones, hour, side) for side in (lab.basis, basis))
    return [
        SiteBasis(
            site,
            zone,
            before[zone].applied if zone else None,
            after[zone].applied if zone else None,
        )
        for site in sites_of(lab)
        for zone in [zone_of_site.get(site.pk, "")]
    ]


@transaction.atomic
def choose_basis(*, lab: Lab, basis: str, by: User, now: int) -> bool:
    """Change the basis of a lab. Return whether it changed. The audit log records the change.

    The applied factors are derived again, which makes the daily rollups stale. Until they are
    summed again, pages read the ledger.
    """
    chosen, locked_lab = check_basis(basis), audit.hold(lab)
    if locked_lab.basis == chosen:
        return False
    Lab.objects.filter(pk=lab.pk).update(basis=chosen)
    audit.record(
        lab=lab,
        by=by,
        action=Act.LAB_CHANGED,
        subject=locked_lab.name,
        details={"basis": {"from": locked_lab.basis, "to": chosen.value}},
        now=now,
    )
    lab.basis = chosen
    apply_factors(lab=lab, now=now)
    return True
