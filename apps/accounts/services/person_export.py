"""What is stored about a person in a lab: every row that refers to them or contains a name."""

import json
from collections.abc import Iterator
from typing import Any

from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.apps import apps
from django.db import models
from django.db.models import QuerySet

from apps.accounts.audit import names_of
from apps.accounts.models import AuditEntry, Lab, User
from apps.accounts.person_names import named, numbers_in, word_pattern
from apps.accounts.services.erasure import account_names
from apps.accounts.services.lab_texts import meta_of, models_with_texts, path_to_lab, text_fields

Row = tuple[str, int, str, str]  # table, row, column, value as JSON
# Columns that are secrets or their digests, never part of an export.
_SECRET = frozenset({"digest", "token", "app_token", "secret", "password"})


def stored_about(lab: Lab, person: User, names: list[str]) -> Iterator[Row]:
    """Return what a lab stores about a person. ``names``: further ones, such as OS users."""
    for column in ("username", "first_name", "last_name", "email", "is_active"):
        yield "accounts_user", person.pk, column, json.dumps(getattr(person, column))
    for column in ("date_joined", "last_login"):
        value = getattr(person, column)
        yield "accounts_user", person.pk, column, json.dumps(value and value.isoformat())
    for row in EmailAddress.objects.filter(user=person):
        yield "account_emailaddress", row.pk, "email", json.dumps(row.email)
    for identity in SocialAccount.objects.filter(user=person):
        yield "socialaccount_socialaccount", identity.pk, "uid", json.dumps(identity.uid)
    yield from _references(lab, person)
    yield from _texts(lab, [*account_names(person), *names])
    yield from _entries(lab, person, [*account_names(person), *names])


def _references(lab: Lab, person: User) -> Iterator[Row]:
    """Return each row of the lab with a foreign key to the person."""
    for model in apps.get_models():
        path = path_to_lab(model) if model is not AuditEntry else ""
        for field in meta_of(model).concrete_fields if path else ():
            if field.related_model is User:
                rows: Any = QuerySet(model).filter(**{path: lab, field.name: person}).order_by("pk")
                table, column = meta_of(model).db_table, field.column
                for row in rows.iterator(chunk_size=1000):
                    yield table, _number(row), column, _as_json(str(row))


def _texts(lab: Lab, names: list[str]) -> Iterator[Row]:
    """Return each text of the lab that contains a name."""
    pattern = word_pattern(names)
    if pattern is None:
        return
    for model in models_with_texts():
        rows: Any = QuerySet(model).filter(**{path_to_lab(model): lab}).order_by("pk")
        for field in text_fields(model):
            if field.name in _SECRET:
                continue
            for pk, value in rows.values_list("pk", field.name).iterator(chunk_size=1000):
                text = value if isinstance(value, str) else _as_json(value)
                if text and pattern.search(text):
                    yield meta_of(model).db_table, pk, field.column, _as_json(value)


def _entries(lab: Lab, person: User, names: list[str]) -> Iterator[Row]:
    """Return the entries of the audit log of or about the person."""
    texts = names_of(lab)
    pattern = word_pattern(names)
    own = {number for number, text in texts.items() if pattern and pattern.search(text)}
    for row in AuditEntry.objects.filter(lab=lab).order_by("sequence").iterator(chunk_size=1000):
        content = [row.actor, row.subject, row.details]
        if row.user_id == person.pk or own & numbers_in(content):
            value = {"at_us": row.at_us, "action": row.action, "content": named(content, texts)}
            yield "accounts_auditentry", row.sequence, "entry", _as_json(value)


def _number(row: models.Model) -> Any:
    return row.pk


def _as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
