"""The closed lists of fleet."""

from django.db.models import TextChoices


class SiteKind(TextChoices):
    WORKSTATION = "workstation", "Office workstation"
    MACHINE_ROOM = "machine_room", "Machine room"
    DATA_CENTRE = "data_centre", "Data centre"
    DECLARED = "declared", "Elsewhere (declared)"


class Control(TextChoices):
    """Who controls the electricity of a site: what scope its use is in, by the lab's profile (see docs/scopes.md)."""

    OWN = "own", "The lab's own site"
    INSIDE_BOUNDARY = "inside_boundary", "Another's, inside the reporting boundary"
    OUTSIDE_BOUNDARY = "outside_boundary", "Another's, outside the reporting boundary"
    CLOUD = "cloud", "A cloud provider's"


class DeviceKind(TextChoices):
    GPU = "gpu", "GPU"
    MIG = "mig", "MIG instance"
    CPU = "cpu", "CPU package"
    DRAM = "dram", "DRAM"
    METER = "meter", "Node meter"
    HOST = "host", "Rest of the node"
    STORAGE = "storage", "Storage"
    DECLARED = "declared", "Declared use"


# PUE of a site nobody measured: design default for an unknown machine room (Uptime Institute's survey mean, 2024: 1.56);
# an office workstation has no machine-room cooling.
DEFAULT_PUE_PPM = {
    SiteKind.WORKSTATION: 1_000_000,
    SiteKind.MACHINE_ROOM: 1_560_000,
    SiteKind.DATA_CENTRE: 1_560_000,
    SiteKind.DECLARED: 1_000_000,
}

# ISO 4217, the codes of money in use (no metals, no funds).
_CODES = """
AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF
CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG
HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA
MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD
RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX
USD UYU UZS VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWG
"""
CURRENCIES = frozenset(_CODES.split())
