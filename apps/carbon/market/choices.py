"""Choices of market-based emissions."""

from django.db import models


class InstrumentKind(models.TextChoices):
    """Kind of an instrument. The last two are published factors of unclaimed electricity."""

    GO = "go", "Guarantee of origin (GO)"
    REGO = "rego", "REGO"
    REC = "rec", "REC"
    I_REC = "i_rec", "I-REC"
    PPA = "ppa", "Power purchase agreement"
    OWN_SOLAR = "own_solar", "Own solar system"
    TARIFF = "tariff", "Supplier tariff"
    RESIDUAL_MIX = "residual_mix", "Residual mix"
    FOSSIL_FACTOR = "fossil_factor", "Fossil-based factor"


CERTIFICATES = (InstrumentKind.GO, InstrumentKind.REGO, InstrumentKind.REC, InstrumentKind.I_REC)
CONTRACTS = (InstrumentKind.PPA, InstrumentKind.OWN_SOLAR)
PUBLISHED = (InstrumentKind.RESIDUAL_MIX, InstrumentKind.FOSSIL_FACTOR)


class Granularity(models.TextChoices):
    """Period within which an instrument is matched with consumption, the finest first."""

    HOUR = "hour", "Hour"
    MONTH = "month", "Month"
    YEAR = "year", "Year"


class RuleEdition(models.TextChoices):
    """Rules that a market-based figure follows."""

    SCOPE2_2015 = "scope2-2015", "Scope 2 Guidance (2015)"
    SCOPE2_DRAFT_2025 = "scope2-draft-2025", "Draft of 2025 (public consultation)"


class MarketRule(models.TextChoices):
    """Rule by which energy has its market-based rate, in order of application."""

    CERTIFICATE = "certificate", "Certificate"
    CONTRACT = "contract", "Contract"
    SUPPLIER_RATE = "supplier_rate", "Supplier rate"
    RESIDUAL_MIX = "residual_mix", "Residual mix"
    FOSSIL_FACTOR = "fossil_factor", "Fossil-based factor"
    GRID_AVERAGE = "grid_average", "Grid average, no residual mix"
    MISSING_FACTOR = "missing_factor", "Missing factor"


class VolumeProfile(models.TextChoices):
    """Origin of the volume of a matching period."""

    NONE = "", "No volume"
    STATED = "stated", "Volume as entered"
    FLAT_MONTH = "flat_month", "Monthly volume, spread flat over the hours of the month"
    FLAT_VINTAGE = "flat_vintage", "Volume, spread flat over the hours of the vintage"


class Exclusion(models.TextChoices):
    """Reason why an instrument covers nothing under a rule edition."""

    OTHER_MARKET = "other_market", "No energy is used in its market"
    NO_VOLUME = "no_volume", "A tariff without a volume cannot be matched by hour"
    UNKNOWN_BOUNDARY = "unknown_boundary", "The grid zone of the plant is unknown"
    OUTSIDE_BOUNDARY = "outside_boundary", "The plant is in another grid zone than the sites"


class InstrumentAct(models.TextChoices):
    """Audit actions on instruments."""

    ADDED = "instrument.added", "Instrument added"
    DOCUMENT_ADDED = "instrument.document_added", "Document of an instrument added"
    WITHDRAWN = "instrument.withdrawn", "Instrument withdrawn"
