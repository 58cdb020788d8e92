"""The first migration of accounts: the tables, indexes and constraints of version 1. It replaces the steps before it."""

import django.contrib.auth.models
import django.contrib.auth.validators
import django.core.validators
import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

from apps.core.migration_operations import CreateModels


class Migration(migrations.Migration):
    replaces = [
        ("accounts", "0001_initial"),
        ("accounts", "0002_people_and_audit"),
        ("accounts", "0003_scope_profiles"),
        ("accounts", "0004_codecarbon_tokens"),
        ("accounts", "0001_squashed_0004"),
    ]

    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="Lab",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "slug",
                            models.CharField(
                                max_length=60,
                                unique=True,
                                validators=[
                                    django.core.validators.RegexValidator(
                                        "^[a-z0-9]+(-[a-z0-9]+)*\\Z",
                                        "Use lower-case letters, digits and single hyphens, such as cell-atlas.",
                                    )
                                ],
                            ),
                        ),
                        ("name", models.CharField(max_length=200)),
                        ("time_zone", models.CharField(default="UTC", max_length=64)),
                        (
                            "basis",
                            models.CharField(
                                choices=[("lifecycle", "Lifecycle"), ("direct", "Direct")],
                                default="lifecycle",
                                max_length=16,
                            ),
                        ),
                        (
                            "profile",
                            models.CharField(
                                choices=[
                                    ("ghg_protocol", "GHG Protocol"),
                                    ("lesson", "Course scheme"),
                                ],
                                default="ghg_protocol",
                                max_length=16,
                            ),
                        ),
                        ("created_us", models.BigIntegerField()),
                        (
                            "audit_digest",
                            models.CharField(blank=True, default="", editable=False, max_length=64),
                        ),
                        ("audit_sequence", models.BigIntegerField(default=0, editable=False)),
                        (
                            "person_view",
                            models.CharField(
                                choices=[
                                    ("own", "Only the person themselves"),
                                    ("pi", "PIs and admins"),
                                    ("lab", "Everyone in the lab"),
                                ],
                                default="pi",
                                max_length=16,
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="User",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("password", models.CharField(max_length=128, verbose_name="password")),
                        (
                            "last_login",
                            models.DateTimeField(blank=True, null=True, verbose_name="last login"),
                        ),
                        (
                            "is_superuser",
                            models.BooleanField(
                                default=False,
                                help_text="Designates that this user has all permissions without explicitly assigning them.",
                                verbose_name="superuser status",
                            ),
                        ),
                        (
                            "username",
                            models.CharField(
                                error_messages={
                                    "unique": "A user with that username already exists."
                                },
                                help_text="Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.",
                                max_length=150,
                                unique=True,
                                validators=[
                                    django.contrib.auth.validators.UnicodeUsernameValidator()
                                ],
                                verbose_name="username",
                            ),
                        ),
                        (
                            "first_name",
                            models.CharField(blank=True, max_length=150, verbose_name="first name"),
                        ),
                        (
                            "last_name",
                            models.CharField(blank=True, max_length=150, verbose_name="last name"),
                        ),
                        (
                            "email",
                            models.EmailField(
                                blank=True, max_length=254, verbose_name="email address"
                            ),
                        ),
                        (
                            "is_staff",
                            models.BooleanField(
                                default=False,
                                help_text="Designates whether the user can log into this admin site.",
                                verbose_name="staff status",
                            ),
                        ),
                        (
                            "is_active",
                            models.BooleanField(
                                default=True,
                                help_text="Designates whether this user should be treated as active. Unselect this instead of deleting accounts.",
                                verbose_name="active",
                            ),
                        ),
                        (
                            "date_joined",
                            models.DateTimeField(
                                default=django.utils.timezone.now, verbose_name="date joined"
                            ),
                        ),
                        (
                            "groups",
                            models.ManyToManyField(
                                blank=True,
                                help_text="The groups this user belongs to. A user will get all permissions granted to each of their groups.",
                                related_name="user_set",
                                related_query_name="user",
                                to="auth.group",
                                verbose_name="groups",
                            ),
                        ),
                        (
                            "user_permissions",
                            models.ManyToManyField(
                                blank=True,
                                help_text="Specific permissions for this user.",
                                related_name="user_set",
                                related_query_name="user",
                                to="auth.permission",
                                verbose_name="user permissions",
                            ),
                        ),
                    ],
                    options={
                        "verbose_name": "user",
                        "verbose_name_plural": "users",
                        "abstract": False,
                    },
                    managers=[
                        ("objects", django.contrib.auth.models.UserManager()),
                    ],
                ),
                migrations.CreateModel(
                    name="OneTimeCode",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "purpose",
                            models.CharField(
                                choices=[
                                    ("setup", "Setup"),
                                    ("sign_in", "Sign-in"),
                                    ("enrol", "Enrolment of a node"),
                                    ("login", "Login of a terminal"),
                                ],
                                max_length=16,
                            ),
                        ),
                        ("digest", models.CharField(max_length=64, unique=True)),
                        ("created_us", models.BigIntegerField()),
                        ("expires_us", models.BigIntegerField()),
                        ("uses_left", models.PositiveIntegerField(default=1)),
                        (
                            "lab",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "user",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="Project",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "slug",
                            models.CharField(
                                max_length=60,
                                validators=[
                                    django.core.validators.RegexValidator(
                                        "^[a-z0-9]+(-[a-z0-9]+)*\\Z",
                                        "Use lower-case letters, digits and single hyphens, such as cell-atlas.",
                                    )
                                ],
                            ),
                        ),
                        ("name", models.CharField(max_length=200)),
                        ("created_us", models.BigIntegerField()),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="projects",
                                to="accounts.lab",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["name", "id"],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("lab", "slug"), name="project_slug_once_per_lab"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Membership",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "role",
                            models.CharField(
                                choices=[
                                    ("viewer", "Viewer"),
                                    ("member", "Member"),
                                    ("pi", "PI"),
                                    ("admin", "Admin"),
                                ],
                                max_length=16,
                            ),
                        ),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="memberships",
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "user",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="memberships",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("joined_us", models.BigIntegerField(blank=True, null=True)),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("lab", "user"), name="membership_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="AuditEntry",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("sequence", models.BigIntegerField()),
                        ("at_us", models.BigIntegerField()),
                        ("actor", models.CharField(max_length=200)),
                        ("action", models.CharField(max_length=64)),
                        ("subject", models.CharField(max_length=300)),
                        ("details", models.JSONField(default=dict)),
                        ("previous", models.CharField(blank=True, max_length=64)),
                        ("digest", models.CharField(max_length=64)),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="audit",
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "user",
                            models.ForeignKey(
                                db_constraint=False,
                                null=True,
                                on_delete=django.db.models.deletion.DO_NOTHING,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["lab", "sequence"],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("lab", "sequence"), name="audit_sequence_once_per_lab"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Invitation",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("email", models.CharField(blank=True, default="", max_length=254)),
                        (
                            "role",
                            models.CharField(
                                choices=[
                                    ("viewer", "Viewer"),
                                    ("member", "Member"),
                                    ("pi", "PI"),
                                    ("admin", "Admin"),
                                ],
                                max_length=16,
                            ),
                        ),
                        ("note", models.CharField(blank=True, default="", max_length=200)),
                        ("digest", models.CharField(max_length=64, unique=True)),
                        ("created_us", models.BigIntegerField()),
                        ("expires_us", models.BigIntegerField()),
                        ("accepted_us", models.BigIntegerField(blank=True, null=True)),
                        ("revoked_us", models.BigIntegerField(blank=True, null=True)),
                        (
                            "accepted_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="invitations_used",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="invitations_made",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="invitations",
                                to="accounts.lab",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["email"], name="invitation_email")],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("expires_us__gt", models.F("created_us"))),
                                name="invitation_ends_after_it_begins",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("accepted_us__isnull", True),
                                    ("revoked_us__isnull", True),
                                    _connector="OR",
                                ),
                                name="invitation_ends_one_way",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("accepted_by__isnull", True),
                                    ("accepted_us__isnull", False),
                                    _connector="OR",
                                ),
                                name="invitation_accepted_at_a_time",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Token",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("node", "Node"),
                                    ("user", "Person"),
                                    ("service", "Service"),
                                    ("cc", "Tracker"),
                                ],
                                max_length=16,
                            ),
                        ),
                        ("public_id", models.CharField(max_length=8, unique=True)),
                        ("digest", models.CharField(max_length=64)),
                        ("pepper", models.PositiveSmallIntegerField()),
                        ("scopes", models.CharField(max_length=200)),
                        ("node_uuid", models.UUIDField(blank=True, null=True)),
                        ("created_us", models.BigIntegerField()),
                        ("expires_us", models.BigIntegerField(blank=True, null=True)),
                        ("revoked_us", models.BigIntegerField(blank=True, null=True)),
                        ("last_used_us", models.BigIntegerField(blank=True, null=True)),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="tokens",
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "user",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="tokens",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "created_by",
                            models.ForeignKey(
                                blank=True,
                                db_column="made_by_id",
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="tokens_made",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("name", models.CharField(blank=True, default="", max_length=100)),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(
                                        models.Q(("kind", "node"), ("node_uuid__isnull", False)),
                                        models.Q(("kind", "node"), _negated=True),
                                        _connector="OR",
                                    ),
                                    models.Q(
                                        models.Q(("kind", "user"), ("user__isnull", False)),
                                        models.Q(("kind", "user"), _negated=True),
                                        _connector="OR",
                                    ),
                                ),
                                name="token_bound_as_its_kind_says",
                            )
                        ],
                    },
                ),
            ]
        ),
    ]
