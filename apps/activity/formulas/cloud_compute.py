"""Energy of cloud instances, and the embodied carbon of their GPUs. Pure.

Power of an instance: vCPUs × (idle + (full − idle) × utilization) + memory × W per GB + GPUs ×
maximum power (TDP) × utilization. Curves of vCPUs and memory: Cloud Carbon Footprint, Methodology,
Apache-2.0 (AWS, Azure: means, Google Cloud: medians of the processors in SPECpower; memory after
Crucial and Micron). The curves are of whole servers with some memory, so ``memory_gb`` is counted
partly twice, as that methodology does for Google Cloud.
"""

from fractions import Fraction

from apps.activity.formulas.estimate import Estimate, Values, estimate, missing, number, text
from apps.carbon.meter_errors import DECLARED_POWER_PPM
from apps.core.units import HOURS_PER_YEAR, PPM

AWS, AZURE, GCP, OTHER = "aws", "azure", "gcp", "other"
PROVIDERS = (
    (AWS, "Amazon Web Services"),
    (AZURE, "Microsoft Azure"),
    (GCP, "Google Cloud"),
    (OTHER, "Another provider"),
)
# mW per vCPU, idle and at full load.
VCPU_MW = {AWS: (740, 3500), AZURE: (780, 3760), GCP: (710, 4260)}
# mW per GB: value, low, high.
MEMORY_MW = (392, 375, 408)
# PUE after Cloud Carbon Footprint, Methodology: stated by Google and Microsoft, estimated for AWS.
PUE_PPM = {AWS: 1_135_000, AZURE: 1_185_000, GCP: 1_100_000}
SOURCE = (
    "vCPU curves and memory: Cloud Carbon Footprint, Methodology, Apache-2.0. GPU: maximum power "
    "of the catalogue × utilization. Range: ±40 % of processors, 0.375 to 0.408 W per GB of memory"
)


def vcpu_mw(provider: str) -> tuple[Fraction, Fraction]:
    """Return idle and full power of a vCPU. Of another provider: the means of the three."""
    if provider in VCPU_MW:
        idle, full = VCPU_MW[provider]
        return Fraction(idle), Fraction(full)
    idle, full = (sum(pair[i] for pair in VCPU_MW.values()) for i in (0, 1))
    return Fraction(idle, len(VCPU_MW)), Fraction(full, len(VCPU_MW))


def instance_hours(values: Values) -> Fraction:
    """Return instances × hours."""
    return number(values, "instances") * number(values, "hours")


def compute(values: Values) -> Estimate:
    """Return the energy of instances. ``gpu_tdp_mw``: maximum power of one of its GPUs."""
    vcpus, gpus = number(values, "vcpus"), number(values, "gpus")
    if not vcpus and not gpus:
        raise missing(
            "vcpus",
            "The instance has neither vCPUs nor GPUs.",
            "Enter the vCPUs of the instance type, or the number and model of its GPUs.",
        )
    use = number(values, "utilization") / 100
    idle, full = vcpu_mw(str(values["provider"]))
    tdp = number(values, "gpu_tdp_mw")
    processors = vcpus * (idle + (full - idle) * use) + gpus * tdp * use
    memory = [number(values, "memory_gb") * mw for mw in MEMORY_MW]
    hours = instance_hours(values)
    error = processors * DECLARED_POWER_PPM / PPM
    kwh, low, high = (
        power * hours / 10**6
        for power in (
            processors + memory[0],
            processors - error + memory[1],
            processors + error + memory[2],
        )
    )
    equation = (
        f"{text(hours)} instance-hours × ({text(vcpus)} vCPUs × ({text(idle / 1000)} + "
        f"{text((full - idle) / 1000)} × {text(use)}) W + {text(number(values, 'memory_gb'))} GB × "
        f"0.392 W + {text(gpus)} GPUs × {text(tdp / 1000)} W × {text(use)})"
    )
    return estimate(kwh, low, high, equation, SOURCE)


def embodied_share_ug(total_ug: int, device_hours: Fraction, life_years: Fraction) -> int:
    """Return the embodied carbon of device-hours, half up: SCI (ISO/IEC 21031), M = TE × TiR / EL,
    a year of 8 760 h.
    """
    share = total_ug * device_hours / (life_years * HOURS_PER_YEAR)
    return int(share + Fraction(1, 2))
