from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0003_person_names"), ("core", "0003_erased_name")]

    operations = [
        migrations.AddField(
            model_name="lab",
            name="has_erased_names",
            field=models.BooleanField(default=False, editable=False),
        ),
    ]
