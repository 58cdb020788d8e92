"""What the trade calls a thing: specification of GPUs and CPUs, power of the rest of a node."""

from django.db import models


class HardwareModel(models.Model):
    """A GPU or CPU as sold: specification only, each row with its source and licence."""

    kind = models.CharField(max_length=8, choices=[("gpu", "GPU"), ("cpu", "CPU")])
    name = models.CharField(max_length=120)
    match_key = models.CharField(max_length=120, db_index=True)
    vendor = models.CharField(max_length=60, blank=True, default="")
    architecture = models.CharField(max_length=80, blank=True, default="")
    release_year = models.IntegerField(null=True, blank=True)
    tdp_mw = models.BigIntegerField(null=True, blank=True)
    memory_mib = models.BigIntegerField(null=True, blank=True)
    cores = models.IntegerField(null=True, blank=True)
    threads = models.IntegerField(null=True, blank=True)
    source = models.CharField(max_length=300)
    licence = models.CharField(max_length=120)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "name"], name="model_name_once")]

    def __str__(self) -> str:
        return self.name
