import django.db.models.deletion
from django.db import migrations, models
from django.db.models import F


def price_past_hours(apps, schema_editor):
    """Give each lab the currency of its first price, and derive its applied factors again."""
    SitePrice, Lab = apps.get_model("fleet", "SitePrice"), apps.get_model("accounts", "Lab")
    Job = apps.get_model("core", "Job")
    currencies = {}
    for price in (
        SitePrice.objects.filter(withdrawn_us__isnull=True).select_related("site").order_by("pk")
    ):
        currencies.setdefault(price.site.lab_id, price.currency)
    for lab_id, currency in currencies.items():
        Lab.objects.filter(pk=lab_id).update(currency=currency)
        _, created = Job.objects.get_or_create(kind="carbon.apply_factors", key=str(lab_id))
        if not created:
            Job.objects.filter(kind="carbon.apply_factors", key=str(lab_id)).update(
                requested=F("requested") + 1, due_us=0
            )


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_costs"),
        ("carbon", "0002_declared_range"),
        ("core", "0002_table_check"),
        ("fleet", "0001_v1"),
    ]

    operations = [
        migrations.AddField(
            model_name="appliedfactor",
            name="price",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="fleet.siteprice",
            ),
        ),
        migrations.AddField(
            model_name="useday",
            name="price_id",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="useday",
            name="cost_ucurrency",
            field=models.BigIntegerField(default=0),
        ),
        migrations.RunPython(price_past_hours, migrations.RunPython.noop),
    ]
