"""Lab, people, projects, memberships, tokens and one-time codes."""

from django.contrib.auth.models import AbstractUser
from django.core.validators import RegexValidator
from django.db import models

from apps.accounts.choices import Basis, CodePurpose, Profile, Role, TokenKind

SLUG = RegexValidator(r"^[a-z0-9]+(-[a-z0-9]+)*\Z", "Use lower-case letters, digits and single hyphens, such as cell-atlas.")


class User(AbstractUser):
    """A person who signs in."""


class Lab(models.Model):
    """The tenant. A session and a token belong to one lab."""

    slug = models.CharField(max_length=60, unique=True, validators=[SLUG])
    name = models.CharField(max_length=200)
    time_zone = models.CharField(max_length=64, default="UTC")
    basis = models.CharField(max_length=16, choices=Basis, default=Basis.LIFECYCLE)
    profile = models.CharField(max_length=16, choices=Profile, default=Profile.GHG_PROTOCOL)
    created_us = models.BigIntegerField()

    def __str__(self) -> str:
        return self.name


class Project(models.Model):
    """Where carbon is charged."""

    lab = models.ForeignKey(Lab, on_delete=models.PROTECT, related_name="projects")
    slug = models.CharField(max_length=60, validators=[SLUG])
    name = models.CharField(max_length=200)
    created_us = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["lab", "slug"], name="project_slug_once_per_lab")]
        ordering = ["name", "id"]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """What one person may do in one lab."""

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["lab", "user"], name="membership_once")]

    def __str__(self) -> str:
        return f"{self.user} in {self.lab}"


class Token(models.Model):
    """A bearer token, stored as a keyed digest. Shown once, at making."""

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="tokens")
    kind = models.CharField(max_length=16, choices=TokenKind)
    public_id = models.CharField(max_length=8, unique=True)
    digest = models.CharField(max_length=64)
    pepper = models.PositiveSmallIntegerField()
    scopes = models.CharField(max_length=200)
    node_uuid = models.UUIDField(null=True, blank=True)
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, blank=True, related_name="tokens")
    created_us = models.BigIntegerField()
    expires_us = models.BigIntegerField(null=True, blank=True)
    revoked_us = models.BigIntegerField(null=True, blank=True)
    last_used_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="token_bound_as_its_kind_says",
                condition=(models.Q(kind=TokenKind.NODE, node_uuid__isnull=False) | ~models.Q(kind=TokenKind.NODE))
                & (models.Q(kind=TokenKind.USER, user__isnull=False) | ~models.Q(kind=TokenKind.USER)),
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} token {self.public_id}"


class OneTimeCode(models.Model):
    """A short-lived code that is traded once: for set-up, for a session, for a node's or a person's token."""

    purpose = models.CharField(max_length=16, choices=CodePurpose)
    digest = models.CharField(max_length=64, unique=True)
    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, null=True, blank=True)
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, blank=True)
    created_us = models.BigIntegerField()
    expires_us = models.BigIntegerField()
    uses_left = models.PositiveIntegerField(default=1)

    def __str__(self) -> str:
        return f"{self.purpose} code"
