"""Who was told of a plan, when and how."""

from django.db import models

from apps.accounts.models import User
from apps.artifacts.choices import MailState
from apps.artifacts.models.plans import Plan


class Notice(models.Model):
    """A person was told of a plan at ``told_us``, on every page they open; ``mail``: what became of the mail to them.

    ``own``: ticked lines of theirs then; ``others``: ticked lines whose owner is not in the lab, of which they were told in
    the owner's place. ``name``: what they were called, for the account may go.
    """

    plan = models.ForeignKey(Plan, on_delete=models.CASCADE, related_name="notices")
    user = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    name = models.CharField(max_length=150)
    own = models.IntegerField()
    others = models.IntegerField()
    told_us = models.BigIntegerField()
    mail = models.CharField(max_length=12, choices=MailState)
    mailed_us = models.BigIntegerField(null=True, blank=True)
    word = models.CharField(max_length=300, blank=True, default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["plan", "user"], name="told_once_of_a_plan")]

    def __str__(self) -> str:
        return f"{self.name} of {self.plan_id}"
