"""Lab, people, projects, memberships, invitations, tokens, one-time codes, and the audit log."""

from typing import Any, NoReturn

from django.contrib.auth.models import AbstractUser
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Q

from apps.accounts.choices import Basis, CodePurpose, PersonView, Profile, Role, TokenKind
from apps.core.errors import Conflict

SLUG = RegexValidator(
    r"^[a-z0-9]+(-[a-z0-9]+)*\Z",
    "Use lower-case letters, digits and single hyphens, such as cell-atlas.",
)


class User(AbstractUser):
    """A person who signs in."""


class Lab(models.Model):
    """The tenant. A session and a token belong to one lab."""

    slug = models.CharField(max_length=60, unique=True, validators=[SLUG])
    name = models.CharField(max_length=200)
    time_zone = models.CharField(max_length=64, default="UTC")
    basis = models.CharField(max_length=16, choices=Basis, default=Basis.LIFECYCLE)
    profile = models.CharField(max_length=16, choices=Profile, default=Profile.GHG_PROTOCOL)
    person_view = models.CharField(max_length=16, choices=PersonView, default=PersonView.PI)
    # Of costs. Unless an admin chose it: that of the first electricity price, "" without any.
    currency = models.CharField(max_length=3, blank=True, default="")
    is_currency_chosen = models.BooleanField(default=False)
    created_us = models.BigIntegerField()
    # The newest row of the audit log, so that cutting off its tail is seen.
    audit_sequence = models.BigIntegerField(default=0, editable=False)
    audit_digest = models.CharField(max_length=64, default="", blank=True, editable=False)

    # Uploads to this lab are searched for names of erased persons.
    has_erased_names = models.BooleanField(default=False, editable=False)

    def __str__(self) -> str:
        return self.name


class Project(models.Model):
    """A project, to which energy and emissions are charged."""

    lab = models.ForeignKey(Lab, on_delete=models.PROTECT, related_name="projects")
    slug = models.CharField(max_length=60, validators=[SLUG])
    name = models.CharField(max_length=200)
    created_us = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lab", "slug"], name="project_slug_once_per_lab")
        ]
        ordering = ["name", "id"]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """The role of a person in a lab. ``joined_us`` is null if unknown."""

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role)
    joined_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["lab", "user"], name="membership_once")]

    def __str__(self) -> str:
        return f"{self.user} in {self.lab}"


class Invitation(models.Model):
    """An invitation to a lab in a role, by a link that works once. ``email`` is '' or lower
    case.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="invitations")
    email = models.CharField(max_length=254, blank=True, default="")
    role = models.CharField(max_length=16, choices=Role)
    note = models.CharField(max_length=200, blank=True, default="")
    digest = models.CharField(max_length=64, unique=True)
    by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, related_name="invitations_made"
    )
    created_us = models.BigIntegerField()
    expires_us = models.BigIntegerField()
    accepted_us = models.BigIntegerField(null=True, blank=True)
    accepted_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="invitations_used"
    )
    revoked_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(expires_us__gt=F("created_us")), name="invitation_ends_after_it_begins"
            ),
            models.CheckConstraint(
                condition=Q(accepted_us__isnull=True) | Q(revoked_us__isnull=True),
                name="invitation_ends_one_way",
            ),
            models.CheckConstraint(
                condition=Q(accepted_by__isnull=True) | Q(accepted_us__isnull=False),
                name="invitation_accepted_at_a_time",
            ),
        ]
        indexes = [models.Index(fields=["email"], name="invitation_email")]

    def __str__(self) -> str:
        return f"invitation to {self.lab} as {self.role}"


class Token(models.Model):
    """An access token, stored as a keyed digest. A service token expires when its creator leaves
    the lab.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="tokens")
    kind = models.CharField(max_length=16, choices=TokenKind)
    public_id = models.CharField(max_length=8, unique=True)
    digest = models.CharField(max_length=64)
    pepper = models.PositiveSmallIntegerField()
    scopes = models.CharField(max_length=200)
    node_uuid = models.UUIDField(null=True, blank=True)
    user = models.ForeignKey(
        User, on_delete=models.CASCADE, null=True, blank=True, related_name="tokens"
    )
    name = models.CharField(max_length=100, blank=True, default="")
    created_by = models.ForeignKey(
        User,
        db_column="made_by_id",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="tokens_made",
    )
    created_us = models.BigIntegerField()
    expires_us = models.BigIntegerField(null=True, blank=True)
    revoked_us = models.BigIntegerField(null=True, blank=True)
    last_used_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="token_bound_as_its_kind_says",
                condition=(
                    Q(kind=TokenKind.NODE, node_uuid__isnull=False) | ~Q(kind=TokenKind.NODE)
                )
                & (Q(kind=TokenKind.USER, user__isnull=False) | ~Q(kind=TokenKind.USER)),
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} token {self.public_id}"


class OneTimeCode(models.Model):
    """A short-lived code that is exchanged once: for setup, for a session, or for a token of a
    node or a person.
    """

    purpose = models.CharField(max_length=16, choices=CodePurpose)
    digest = models.CharField(max_length=64, unique=True)
    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, null=True, blank=True)
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, blank=True)
    created_us = models.BigIntegerField()
    expires_us = models.BigIntegerField()
    uses_left = models.PositiveIntegerField(default=1)

    def __str__(self) -> str:
        return f"{self.purpose} code"


def _never(*args: Any, **kwargs: Any) -> NoReturn:
    raise Conflict(
        "Entries of the audit log cannot be changed.", hint="Record a correction as a new entry."
    )


class AuditRows(models.QuerySet["AuditEntry"]):
    """Entries of the audit log. Bulk changes are refused too."""

    update = delete = bulk_update = bulk_create = _never


class PersonName(models.Model):
    """A personal name that entries of the audit log refer to as ``⟦name <id>⟧``, or a text that
    a person typed (``is_name`` false). Erasing a person replaces the name in ``text``.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+")
    text = models.TextField()
    is_name = models.BooleanField(default=True)

    def __str__(self) -> str:
        return f"name {self.pk}"


class AuditEntry(models.Model):
    """One action, chained by ``digest`` (SHA-256, :func:`credentials.entry_digest`) to the entry
    before it.

    ``user`` is kept as a bare number: deleting an account must not change a row. Names in
    ``actor``, ``subject`` and ``details`` are references (:mod:`apps.accounts.person_names`).
    """

    lab = models.ForeignKey(Lab, on_delete=models.PROTECT, related_name="audit")
    sequence = models.BigIntegerField()
    at_us = models.BigIntegerField()
    actor = models.CharField(max_length=200)
    user = models.ForeignKey(
        User, on_delete=models.DO_NOTHING, db_constraint=False, null=True, related_name="+"
    )
    action = models.CharField(max_length=64)
    subject = models.CharField(max_length=300)
    details = models.JSONField(default=dict)
    previous = models.CharField(max_length=64, blank=True)
    digest = models.CharField(max_length=64)

    objects = AuditRows.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lab", "sequence"], name="audit_sequence_once_per_lab")
        ]
        ordering = ["lab", "sequence"]

    def __str__(self) -> str:
        return f"{self.sequence}: {self.actor} {self.action} {self.subject}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Insert the entry. Raises Conflict for an existing one."""
        if not self._state.adding:
            _never()
        super().save(*args, **{**kwargs, "force_insert": True})

    delete = _never
