"""Labels of the inputs that formulas name in their errors. Pure."""

LABELS = {
    "kwh": "Energy (kWh)",
    "hours": "Hours",
    "core_hours": "Core-hours",
    "watts_per_core": "Power of a core (W)",
    "gpu_hours": "GPU-hours",
    "watts_per_gpu": "Power of a GPU (W)",
    "disks": "Disks",
    "watts_per_disk": "Power of a disk (W)",
    "watts": "Power of a device (W)",
}
