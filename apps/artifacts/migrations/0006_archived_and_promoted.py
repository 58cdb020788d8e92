from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("artifacts", "0005_holds_and_notices"),
    ]

    operations = [
        migrations.AlterField(
            model_name="planline",
            name="kept",
            field=models.CharField(
                choices=[
                    ("pinned", "pinned"),
                    ("promoted", "promoted"),
                    ("held", "held"),
                    ("ancestor", "something promoted or pinned came of it"),
                    ("dataset", "a dataset"),
                    ("referenced", "another run began from it or read it"),
                    ("unknown", "no run is known that made it"),
                    ("running", "its run goes on"),
                    ("archived", "archived"),
                    ("final", "the last or best of a finished run"),
                    ("crashed", "the last of a run that did not finish"),
                    ("intermediate", "an intermediate state of a run"),
                    ("sweep", "of a sweep that another run won"),
                ],
                max_length=16,
            ),
        ),
        migrations.AlterField(
            model_name="retentiondays",
            name="kept",
            field=models.CharField(
                choices=[
                    ("pinned", "pinned"),
                    ("promoted", "promoted"),
                    ("held", "held"),
                    ("ancestor", "something promoted or pinned came of it"),
                    ("dataset", "a dataset"),
                    ("referenced", "another run began from it or read it"),
                    ("unknown", "no run is known that made it"),
                    ("running", "its run goes on"),
                    ("archived", "archived"),
                    ("final", "the last or best of a finished run"),
                    ("crashed", "the last of a run that did not finish"),
                    ("intermediate", "an intermediate state of a run"),
                    ("sweep", "of a sweep that another run won"),
                ],
                max_length=16,
            ),
        ),
        migrations.AddIndex(
            model_name="artifact",
            index=models.Index(condition=models.Q(("state", "promoted")), fields=["lab"], name="artifact_promoted"),
        ),
    ]
