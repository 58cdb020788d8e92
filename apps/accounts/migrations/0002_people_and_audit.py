import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="lab",
            name="audit_digest",
            field=models.CharField(blank=True, default="", editable=False, max_length=64),
        ),
        migrations.AddField(
            model_name="lab",
            name="audit_sequence",
            field=models.BigIntegerField(default=0, editable=False),
        ),
        migrations.AddField(
            model_name="lab",
            name="person_view",
            field=models.CharField(
                choices=[
                    ("own", "Only one's own"),
                    ("pi", "PIs and admins see everyone's"),
                    ("lab", "Everyone in the lab sees everyone's"),
                ],
                default="pi",
                max_length=16,
            ),
        ),
        migrations.AddField(
            model_name="membership",
            name="joined_us",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="token",
            name="made_by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="tokens_made",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="token",
            name="name",
            field=models.CharField(blank=True, default="", max_length=100),
        ),
        migrations.AlterField(
            model_name="token",
            name="kind",
            field=models.CharField(choices=[("node", "Node"), ("user", "Person"), ("service", "Service")], max_length=16),
        ),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
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
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="audit", to="accounts.lab"),
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
                "constraints": [models.UniqueConstraint(fields=("lab", "sequence"), name="audit_sequence_once_per_lab")],
            },
        ),
        migrations.CreateModel(
            name="Invitation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("email", models.CharField(blank=True, default="", max_length=254)),
                (
                    "role",
                    models.CharField(
                        choices=[("viewer", "Viewer"), ("member", "Member"), ("pi", "PI"), ("admin", "Admin")], max_length=16
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
                        on_delete=django.db.models.deletion.CASCADE, related_name="invitations", to="accounts.lab"
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
                        condition=models.Q(("accepted_us__isnull", True), ("revoked_us__isnull", True), _connector="OR"),
                        name="invitation_ends_one_way",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("accepted_by__isnull", True), ("accepted_us__isnull", False), _connector="OR"),
                        name="invitation_accepted_at_a_time",
                    ),
                ],
            },
        ),
    ]
