"""What models have in common with work that is about to be done; derived (see ``reusing``)."""

from django.db import models

from apps.accounts.models import Lab
from apps.artifacts.models.artifacts import Artifact
from apps.artifacts.reuse.similarity import TermKind


class ReuseTerm(models.Model):
    """A term of a model (see ``reuse``)."""

    pk = models.CompositePrimaryKey("lab", "kind", "term", "artifact")
    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+", db_index=False)
    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="reuse_terms")
    kind = models.SmallIntegerField(choices=TermKind)
    term = models.CharField(max_length=40)

    def __str__(self) -> str:
        return f"{self.kind} {self.term}"
