"""Choices of billing exports."""

from django.db.models import TextChoices


class Provider(TextChoices):
    AWS = "aws", "Amazon Web Services"
    GCP = "gcp", "Google Cloud"
    AZURE = "azure", "Microsoft Azure"


class Category(TextChoices):
    """What a line of a bill is about. ``NONE``: neither of these."""

    COMPUTE = "compute", "Compute"
    STORAGE = "storage", "Storage"
    TRANSFER = "transfer", "Transfer"
    NONE = "", "Other"


class Charge(TextChoices):
    """Kind of a charge. Only ``USAGE`` has an amount of use."""

    USAGE = "usage", "Usage"
    FEE = "fee", "Fees and reservations"
    DISCOUNT = "discount", "Discounts"
    CREDIT = "credit", "Credits"
    REFUND = "refund", "Refunds"
    TAX = "tax", "Taxes"
    OTHER = "other", "Other charges"


class FileState(TextChoices):
    """State of a billing export."""

    SCANNING = "scanning", "Reading"
    MAPPING = "mapping", "Accounts to assign"
    READING = "reading", "Computing"
    CHECKED = "checked", "Preview"
    RECORDING = "recording", "Recording"
    DONE = "done", "Recorded"
    REFUSED = "refused", "Rejected"


class Act(TextChoices):
    """Audit actions on billing exports."""

    RECORDED = "billing.recorded", "Billing export recorded"
    REMOVED = "billing.removed", "Billed month removed"
