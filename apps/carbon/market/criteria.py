"""Quality criteria of instruments by the Scope 2 Guidance (2015), and what is missing. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from apps.carbon.market.choices import (
    CERTIFICATES,
    PUBLISHED,
    Exclusion,
    Granularity,
    InstrumentKind,
)

WH_PER_CERTIFICATE = 1_000_000


class Criterion(StrEnum):
    """A quality criterion."""

    UNIQUE = "unique claim"
    RETIRED = "retired for the lab"
    VINTAGE = "vintage close to consumption"
    MARKET = "same market"
    EVIDENCE = "evidence"
    RESIDUAL_MIX = "residual mix available"
    HOURLY = "hourly matching (draft)"


@dataclass(frozen=True)
class Facts:
    """What is recorded about an instrument. ``certificates``: number of certificates."""

    kind: InstrumentKind
    registry: str
    certificates: int
    volume_wh: int | None
    first_day: date
    last_day: date
    retired_on: date | None
    beneficiary: str
    has_evidence: bool
    volumes_by: Granularity


@dataclass(frozen=True)
class Finding:
    """A criterion that an instrument does not meet. ``code`` is stable, ``text`` is for people."""

    code: str
    criterion: Criterion
    text: str
    hint: str


def check_instrument(facts: Facts) -> list[Finding]:
    """Return a finding for each criterion that the record of an instrument does not meet."""
    findings = list[Finding]()
    if facts.kind in CERTIFICATES:
        findings += _check_certificates(facts)
    if facts.kind not in PUBLISHED:
        findings += _check_claim(facts)
    if not facts.has_evidence:
        findings.append(
            Finding(
                "no_evidence",
                Criterion.EVIDENCE,
                "No document is attached.",
                "Attach the certificate, the contract or the publication.",
            )
        )
    return findings


def _check_certificates(facts: Facts) -> Iterable[Finding]:
    if not facts.registry:
        yield Finding(
            "no_registry", Criterion.UNIQUE, "The registry is not stated.", "Enter the registry."
        )
    if not facts.certificates:
        yield Finding(
            "no_certificate_ids",
            Criterion.UNIQUE,
            "The certificate ids are not stated.",
            "Enter them, so that no certificate is used twice.",
        )
    elif facts.certificates * WH_PER_CERTIFICATE != facts.volume_wh:
        yield Finding(
            "other_volume",
            Criterion.UNIQUE,
            f"The ids are of {facts.certificates} certificates of 1 MWh, and the volume differs.",
            "Compare both with the statement of the registry.",
        )
    if facts.retired_on is None:
        yield Finding(
            "not_retired",
            Criterion.RETIRED,
            "No date of retirement is stated.",
            "Enter the day on which the registry retired the certificates.",
        )
    elif facts.retired_on < facts.first_day:
        yield Finding(
            "retired_before_vintage",
            Criterion.RETIRED,
            "The certificates were retired before their vintage began.",
            "Check the date of retirement and the vintage.",
        )


def _check_claim(facts: Facts) -> Iterable[Finding]:
    if facts.kind != InstrumentKind.OWN_SOLAR and not facts.beneficiary:
        yield Finding(
            "no_beneficiary",
            Criterion.RETIRED,
            "No beneficiary is stated.",
            "Enter the organisation for which it was retired or supplied.",
        )
    if (facts.last_day - facts.first_day).days > 366:
        yield Finding(
            "long_vintage",
            Criterion.VINTAGE,
            "The vintage is longer than a year.",
            "Enter one instrument for each year.",
        )
    if facts.volume_wh is not None and facts.volumes_by != Granularity.HOUR:
        yield Finding(
            "no_hourly_volumes",
            Criterion.HOURLY,
            "Hourly volumes are not stated. The draft edition spreads the volume flat over hours.",
            "Enter hourly volumes if the registry or the supplier has them.",
        )


def check_exclusion(exclusion: Exclusion) -> Finding:
    """Return the finding of an instrument that covers nothing under a rule edition."""
    criterion = Criterion.HOURLY if exclusion == Exclusion.NO_VOLUME else Criterion.MARKET
    hints = {
        Exclusion.OTHER_MARKET: "Check its market and the grid zones of the sites.",
        Exclusion.NO_VOLUME: "Enter the volume of the supplied electricity.",
        Exclusion.UNKNOWN_BOUNDARY: "Enter the grid zone of the plant.",
        Exclusion.OUTSIDE_BOUNDARY: "Only plants in the grid zone of a site can deliver to it.",
    }
    return Finding(exclusion.value, criterion, f"{exclusion.label}.", hints[exclusion])


def check_residual_mix(residual_year: int | None, year: int) -> list[Finding]:
    """Return the findings about the residual mix of a zone. ``residual_year`` None: it has none."""
    if residual_year is None:
        return [
            Finding(
                "no_residual_mix",
                Criterion.RESIDUAL_MIX,
                "No residual mix is entered. It is missing, which is not 0.",
                "Enter the published residual mix of the zone as an instrument.",
            )
        ]
    if residual_year != year:
        return [
            Finding(
                "residual_mix_of_another_year",
                Criterion.RESIDUAL_MIX,
                f"The residual mix is of {residual_year}.",
                f"Enter that of {year} when it is published.",
            )
        ]
    return []
