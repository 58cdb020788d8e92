"""All texts of a lab in the database, to replace names in them.

Each model with a text column leads to its lab by its foreign keys, or is listed here with the
reason why it contains no name.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import IntegrityError, models, transaction
from django.db.models import QuerySet

from apps.accounts.models import Lab, PersonName
from apps.core.erasure.names import ErasedNames, Reading

TEXT_FIELDS = (models.CharField, models.TextField, models.JSONField)
# Without names of a lab's persons: tables of the framework, shipped data, keys of machines. The
# account itself and the audit log are erased by services/erasure.py.
WITHOUT_NAMES = frozenset(
    {
        "auth.Permission", "auth.Group", "contenttypes.ContentType", "sessions.Session",
        "account.EmailAddress", "account.EmailConfirmation", "socialaccount.SocialApp",
        "socialaccount.SocialAccount", "socialaccount.SocialToken", "mfa.Authenticator",
        "core.Job", "core.TableCheck", "core.ErasedName", "accounts.User", "accounts.Lab",
        "accounts.OneTimeCode", "accounts.AuditEntry", "carbon.RolledDay",
        "ingest.EnergyWindow", "ingest.DeclaredGap", "ingest.Epoch", "ingest.BootClock",
        "ingest.SealedBlock", "runs.CodeState", "runs.MetricPoint", "artifacts.Alias",
        "artifacts.SharedBytes", "assets.DeviceDay",
    }
)  # fmt: skip
# Columns that contain the names of persons, paths, or keys that other records, uploads and commands
# refer to. All others are texts.
_READINGS = {
    **dict.fromkeys(
        (
            "accounts.Invitation.email", "accounts.PersonName.text", "runs.Run.os_user",
            "attribution.AttributionRule.os_user", "attribution.Attribution.os_user",
            "carbon.UseDay.os_user", "artifacts.Artifact.os_user", "assets.Asset.contact",
            "trackers.MlflowSource.user", "artifacts.Notification.name",
            "carbon.Instrument.beneficiary",
        ),
        Reading.NAME,
    ),
    **dict.fromkeys(
        (
            "artifacts.Copy.path", "attribution.AttributionRule.path_prefix",
            "trackers.MlflowFile.path",
        ),
        Reading.PATH,
    ),
    **dict.fromkeys(
        (
            "accounts.Project.slug", "runs.Run.requested_project", "catalog.HardwareModel.name",
            "catalog.HardwareModel.vendor", "catalog.HardwareModel.match_key",
            "catalog.HardwareAlias.match_key", "catalog.HardwareModel.architecture",
            "fleet.SiteZone.zone", "fleet.Device.key", "fleet.Device.name",
            "reports.Statement.content", "reports.Statement.sha256", "reports.Statement.time_zone",
            "carbon.Instrument.market", "carbon.Instrument.plant_zone",
            "carbon.CertificateRange.prefix", "carbon.CertificateRange.text",
            "carbon.InstrumentEvidence.content_type", "carbon.EmissionFactor.zone",
            "carbon.EmissionFactor.zone_name", "carbon.OwnFactorFile.sha256",
            "activity.RecurringActivity.zone",
            "billing.BillingFile.sha256", "billing.BillingAccount.account",
            "billing.BilledMonth.account", "billing.BilledMonth.month",
            "billing.BilledMonth.currency", "billing.BillingItem.instance_type",
            "billing.BillingItem.gpu", "billing.BillingItem.medium", "billing.BillingItem.region",
            "billing.BillingItem.resource", "billing.BilledUse.digest",
        ),
        Reading.KEPT,
    ),
}  # fmt: skip
# Objects whose keys a person chooses.
_FREE_KEYS = frozenset(
    {"runs.Run.tags", "runs.Run.params", "artifacts.Artifact.tags", "billing.BillingFile.found"}
)


def meta_of(model: Any) -> Any:
    """Return the description of a model: label, table and columns."""
    return model._meta  # noqa: SLF001 - the documented API of models


def path_to_lab(model: type[models.Model], passed: tuple[Any, ...] = ()) -> str:
    """Return the lookup from a model to its lab, such as ``node__lab``, '' for none."""
    foreign = [f for f in meta_of(model).concrete_fields if f.many_to_one or f.one_to_one]
    if any(field.related_model is Lab for field in foreign):
        return str(next(field.name for field in foreign if field.related_model is Lab))
    paths = [
        f"{field.name}__{path}"
        for field in foreign
        if not field.null and field.related_model not in (model, *passed)
        if (path := path_to_lab(field.related_model, (*passed, model)))
    ]
    return min(paths, key=lambda path: path.count("__"), default="")


def text_fields(model: type[models.Model]) -> list[Any]:
    """Return the columns of a model that can contain a typed or uploaded text."""
    return [
        field
        for field in meta_of(model).concrete_fields
        if isinstance(field, TEXT_FIELDS) and not field.choices
    ]


def models_with_texts() -> list[type[models.Model]]:
    """Return the models whose texts can contain names."""
    return [
        model
        for model in apps.get_models()
        if text_fields(model) and meta_of(model).label not in WITHOUT_NAMES
    ]


@dataclass(frozen=True)
class Column:
    """A column with texts, and those of its rows that are of one lab and read in one way."""

    label: str
    field: Any
    reading: Reading
    rows: Any

    @property
    def is_json(self) -> bool:
        return isinstance(self.field, models.JSONField)

    @property
    def has_free_keys(self) -> bool:
        return self.label in _FREE_KEYS

    def without_names(self, value: Any, names: ErasedNames) -> Any:
        """Return a value of the column without erased names."""
        if self.is_json:
            return names.replace(value, keys=self.has_free_keys, reading=self.reading)
        return names.text(str(value), self.reading)


def columns_of(lab: Lab) -> Iterator[Column]:
    """Return each column with texts of a lab."""
    for model in models_with_texts():
        rows: Any = QuerySet(model).filter(**{path_to_lab(model): lab}).order_by()
        for field in text_fields(model):
            label = f"{meta_of(model).label}.{field.name}"
            if model is PersonName:  # typed reasons and notes are in the same column
                yield Column(label, field, Reading.NAME, rows.filter(is_name=True))
                yield Column(label, field, Reading.TEXT, rows.filter(is_name=False))
            else:
                yield Column(label, field, _READINGS.get(label, Reading.TEXT), rows)


def replace_in_lab(lab: Lab, names: ErasedNames) -> dict[str, int]:
    """Replace names in all texts of a lab. Return the number of changed values by column."""
    changed: dict[str, int] = {}
    for column in columns_of(lab):
        if column.reading is Reading.KEPT:
            continue
        change = _replace_json if column.is_json else _replace_text
        if count := change(column, names):
            changed[column.label] = changed.get(column.label, 0) + count
    return changed


def _replace_text(column: Column, names: ErasedNames) -> int:
    """Replace a text wherever the column has it, so that equal texts stay equal."""
    texts = list(column.rows.values_list(column.field.name, flat=True).distinct())
    count = 0
    for old in filter(None, texts):
        new = column.without_names(old, names)
        if new != old:
            _update(column.rows, column.field, old, new)
            count += 1
    return count


def _update(rows: Any, field: Any, old: str, new: str) -> None:
    pks = list(rows.filter(**{field.name: old}).values_list("pk", flat=True))
    for start in range(0, len(pks), 500):
        part: Any = QuerySet(rows.model).filter(pk__in=pks[start : start + 500])
        for candidate in _candidates(new, field.max_length):
            try:
                with transaction.atomic():
                    part.update(**{field.name: candidate})
                break
            except IntegrityError:  # the same text exists without the name
                continue


def _candidates(text: str, length: int | None) -> Iterator[str]:
    yield text[:length]
    for number in range(2, 1000):
        end = f"-{number}"
        yield f"{text[: length - len(end)] if length else text}{end}"


def _replace_json(column: Column, names: ErasedNames) -> int:
    count = 0
    for pk, value in list(column.rows.values_list("pk", column.field.name)):
        new = column.without_names(value, names)
        if new != value:
            QuerySet(column.rows.model).filter(pk=pk).update(**{column.field.name: new})
            count += 1
    return count
