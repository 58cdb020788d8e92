"""All texts of a lab in the database, to replace names in them.

Each model with a text column leads to its lab by its foreign keys, or is listed here with the
reason why it contains no name.
"""

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.db import IntegrityError, models, transaction
from django.db.models import QuerySet

from apps.accounts.models import Lab
from apps.core.erased_names import ErasedNames

TEXT_FIELDS = (models.CharField, models.TextField, models.JSONField)
# Without names of a lab's persons: tables of the framework, shipped data, keys of machines. The
# account itself and the audit log are erased by services/erasure.py.
WITHOUT_NAMES = frozenset(
    {
        "auth.Permission", "auth.Group", "contenttypes.ContentType", "sessions.Session",
        "account.EmailAddress", "account.EmailConfirmation", "socialaccount.SocialApp",
        "socialaccount.SocialAccount", "socialaccount.SocialToken", "mfa.Authenticator",
        "core.Job", "core.TableCheck", "core.ErasedName", "accounts.User", "accounts.Lab",
        "accounts.OneTimeCode", "accounts.AuditEntry", "carbon.EmissionFactor", "carbon.RolledDay",
        "ingest.EnergyWindow", "ingest.DeclaredGap", "ingest.Epoch", "ingest.BootClock",
        "ingest.SealedBlock", "runs.CodeState", "runs.MetricPoint", "artifacts.Alias",
        "artifacts.SharedBytes", "assets.DeviceDay",
    }
)  # fmt: skip
# Objects whose keys a person chooses.
_FREE_KEYS = frozenset({"runs.Run.tags", "runs.Run.params", "artifacts.Artifact.tags"})


def meta_of(model: Any) -> Any:
    """Return the description of a model: label, table and columns."""
    return model._meta  # noqa: SLF001 - the documented API of models


def path_to_lab(model: type[models.Model], passed: tuple[Any, ...] = ()) -> str:
    """Return the lookup from a model to its lab, such as ``node__lab``, '' for none."""
    foreign = [f for f in meta_of(model).concrete_fields if f.many_to_one or f.one_to_one]
    if any(field.related_model is Lab for field in foreign):
        return next(field.name for field in foreign if field.related_model is Lab)
    paths = [
        f"{field.name}__{path}"
        for field in foreign
        if not field.null and field.related_model not in (model, *passed)
        if (path := path_to_lab(field.related_model, (*passed, model)))  # type: ignore[arg-type]
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


def replace_in_lab(lab: Lab, names: ErasedNames) -> dict[str, int]:
    """Replace names in all texts of a lab. Return the number of changed values by column."""
    changed = {}
    for model in models_with_texts():
        rows = QuerySet(model).filter(**{path_to_lab(model): lab}).order_by()
        for field in text_fields(model):
            is_json = isinstance(field, models.JSONField)
            change = _replace_json if is_json else _replace_text
            if count := change(rows, field, names):
                changed[f"{meta_of(model).label}.{field.name}"] = count
    return changed


def _replace_text(rows: Any, field: Any, names: ErasedNames) -> int:
    """Replace a text wherever the column has it, so that equal texts stay equal."""
    texts = [text for text in rows.values_list(field.name, flat=True).distinct() if text]
    count = 0
    for old in texts:
        new = names.text(old)
        if new != old:
            _update(rows, field, old, new)
            count += 1
    return count


def _update(rows: Any, field: Any, old: str, new: str) -> None:
    pks = list(rows.filter(**{field.name: old}).values_list("pk", flat=True))
    for start in range(0, len(pks), 500):
        part = QuerySet(rows.model).filter(pk__in=pks[start : start + 500])
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


def _replace_json(rows: Any, field: Any, names: ErasedNames) -> int:
    keys = f"{meta_of(rows.model).label}.{field.name}" in _FREE_KEYS
    count = 0
    for pk, value in list(rows.values_list("pk", field.name)):
        new = names.replace(value, keys=keys)
        if new != value:
            QuerySet(rows.model).filter(pk=pk).update(**{field.name: new})
            count += 1
    return count
