"""Choices of fleet."""

from django.db.models import TextChoices


class SiteKind(TextChoices):
    WORKSTATION = "workstation", "Office workstation"
    MACHINE_ROOM = "machine_room", "Machine room"
    DATA_CENTRE = "data_centre", "Data centre"
    DECLARED = "declared", "Elsewhere (declared)"


class Control(TextChoices):
    """Control of the electricity of a site. It determines the scope of its use (docs/scopes.md)."""

    OWN = "own", "Own site"
    INSIDE_BOUNDARY = "inside_boundary", "Other owner, inside the reporting boundary"
    OUTSIDE_BOUNDARY = "outside_boundary", "Other owner, outside the reporting boundary"
    CLOUD = "cloud", "Cloud provider"


class PriceKind(TextChoices):
    """How an electricity price changes: not, by the hours of a week, or by single hours."""

    FLAT = "flat", "Flat price"
    TARIFF = "tariff", "Time-of-use tariff"
    HOURLY = "hourly", "Hourly prices"


class DeviceKind(TextChoices):
    GPU = "gpu", "GPU"
    MIG = "mig", "MIG instance"
    CPU = "cpu", "CPU package"
    DRAM = "dram", "DRAM"
    METER = "meter", "Node meter"
    HOST = "host", "Node overhead"
    STORAGE = "storage", "Storage"
    DECLARED = "declared", "Declared use"


# PUE of a site without a measured value: default for an unknown machine room (Uptime Institute's
# survey mean, 2024: 1.56); an office workstation has no machine-room cooling.
DEFAULT_PUE_PPM = {
    SiteKind.WORKSTATION: 1_000_000,
    SiteKind.MACHINE_ROOM: 1_560_000,
    SiteKind.DATA_CENTRE: 1_560_000,
    SiteKind.DECLARED: 1_000_000,
}

# ISO 4217 (list one of its maintenance agency, six-group.com), the codes of money in use or in old
# prices (no metals, no funds).
_CODES = """
AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD
CAD CDF CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD
GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT
LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR
NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP
STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VES VND VUV WST XAF XCD XCG
XOF XPF YER ZAR ZMW ZWG
"""
CURRENCIES = frozenset(_CODES.split())


class EnrolmentState(TextChoices):
    """State of a node that came with a fleet token."""

    WAITING = "waiting", "Waiting for approval"
    ENROLLED = "enrolled", "Enrolled"
    DECLINED = "declined", "Declined"
