"""Choices of the catalogue."""

from django.db.models import TextChoices


class HardwareKind(TextChoices):
    GPU = "gpu", "GPU"
    CPU = "cpu", "CPU"
    SERVER = "server", "Server"
    WORKSTATION = "workstation", "Workstation or desktop"
    LAPTOP = "laptop", "Laptop"
    STORAGE = "storage", "Storage"
    NETWORK = "network", "Network"
    MONITOR = "monitor", "Monitor"
    OTHER = "other", "Other"


class FigureMethod(TextChoices):
    """Method of an embodied figure, most reliable first."""

    PCF = "pcf", "Product carbon footprint"
    LCA = "lca", "Life-cycle assessment"
    PARAMETRIC = "parametric", "Parametric estimate"
    CATEGORY = "category", "Category average"


TRUST: tuple[str, ...] = tuple(FigureMethod.values)


class FigureUnit(TextChoices):
    """Unit of a figure: one item, or a measure of it."""

    ITEM = "item", "item"
    PER_TB = "per_tb", "TB"
    PER_GB = "per_gb", "GB"
    PER_KG = "per_kg", "kg"
    PER_MM2 = "per_mm2", "mm²"
    PER_PACKAGE = "per_package", "package"


class Confidence(TextChoices):
    """Confidence in a figure."""

    READ = "read", "Read from the source's data"
    REPORTED = "reported", "Quoted at second hand"
    ESTIMATE = "estimate", "Estimate"
    STATED = "stated", "Stated by the lab"
