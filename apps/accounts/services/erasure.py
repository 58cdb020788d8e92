"""Erase a person: the account, and each name in the labs given (ADR 49)."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Max, Q
from django.dispatch import receiver

from apps.accounts import audit, rechain
from apps.accounts.authentication import forget_tokens
from apps.accounts.choices import SERVICE_KINDS, Act, Role
from apps.accounts.common_words import is_common, is_ordinary
from apps.accounts.models import (
    AuditEntry,
    Invitation,
    Lab,
    Membership,
    OneTimeCode,
    Token,
    User,
)
from apps.accounts.services.lab_texts import replace_in_lab
from apps.accounts.signals import erasure_checked, names_replaced
from apps.core.erasure.list_file import list_path, write_list
from apps.core.erasure.names import (
    ACCOUNTS,
    ErasedNames,
    Reading,
    erased_names,
    label_of,
    name_digest,
    words_of,
)
from apps.core.erasure.signals import erasures_missing
from apps.core.errors import Conflict, InvalidInput
from apps.core.jobs import enqueue, job
from apps.core.models import ErasedName
from apps.core.units import US_PER_S

MAX_NAMES = 20
REPLACE_JOB = "accounts.replace_names"
# Another web process uses a token's lab for up to ten seconds, and does not know of the erasure.
REPLACE_DELAY_US = 60 * US_PER_S


@dataclass(frozen=True)
class Erasure:
    """What was erased. ``kept_words``: names that can be words and therefore stay in texts."""

    number: int
    changed: dict[str, int]
    kept_words: list[str]

    @property
    def label(self) -> str:
        return label_of(self.number)


def account_names(person: User) -> list[str]:
    """Return the names of an account: user name, full name, e-mail addresses, identities."""
    names = [person.get_username(), person.get_full_name().strip(), person.email]
    names += EmailAddress.objects.filter(user=person).values_list("email", flat=True)
    names += SocialAccount.objects.filter(user=person).values_list("uid", flat=True)
    return list(dict.fromkeys(name for name in names if name))


def labs_of(person: User) -> list[Lab]:
    """Return the labs of a person, and those whose audit log they are in."""
    acted = AuditEntry.objects.filter(user_id=person.pk).values("lab_id")
    return list(
        Lab.objects.filter(Q(memberships__user=person) | Q(pk__in=acted)).distinct().order_by("pk")
    )


def check_names(names: Iterable[str]) -> list[str]:
    """Return further names of a person, each once. Raises InvalidInput."""
    checked = list(dict.fromkeys(name.strip() for name in names if name.strip()))
    if len(checked) > MAX_NAMES or any(len(name) > 200 for name in checked):
        raise InvalidInput(
            f"At most {MAX_NAMES} names of 200 characters.",
            field="names",
            hint="Enter only names of this person, one per line.",
        )
    unusable = next((name for name in checked if is_common(name) or not words_of(name)), None)
    if unusable is not None:
        raise InvalidInput(
            f"{unusable!r} is a common word, a number or one character. It identifies nobody.",
            field="names",
            hint="Remove it from the list.",
        )
    return checked


@transaction.atomic
def erase_person(
    *,
    person: User,
    names: Sequence[str],
    labs: Sequence[Lab],
    by: User | None,
    now: int,
    in_texts: Collection[str] | None = None,
) -> Erasure:
    """Erase a person. ``names``: further ones, such as OS users; ``labs``: where they are replaced.
    ``in_texts``: names that are replaced in prose too; None: those that are no ordinary words.

    Energy, runs and claims stay, with a neutral label.
    """
    ordered = sorted(labs, key=lambda lab: lab.pk)
    for lab in ordered:
        audit.hold(lab)
        _refuse_last_admin(lab, person)
    if ErasedName.objects.filter(lab_id=ACCOUNTS, digest=_account_digest(person)).exists():
        raise Conflict("This account has the name of an erased person.", hint="Rename it first.")
    texts = list(dict.fromkeys([*account_names(person), *check_names(names)]))
    usable = {
        name: not is_ordinary(name) if in_texts is None else name in in_texts
        for name in texts
        if not is_common(name) and words_of(name)
    }
    newest = ErasedName.objects.aggregate(newest=Max("number"))["newest"] or 0
    rows = _rows(person, usable, ordered, newest + 1, now)
    ErasedName.objects.bulk_create(rows)
    for lab in ordered:
        stored = ErasedNames(lab.pk, ErasedName.objects.filter(lab_id=lab.pk))
        erasure_checked.send(sender=Lab, lab=lab, names=stored)
    changed = _erase_account(person, newest + 1, now)
    for lab in ordered:
        changed |= _erase_in_lab(lab, person, newest + 1, by, now, applied_again=False)
    transaction.on_commit(lambda: write_list(list_path()))
    transaction.on_commit(forget_tokens)
    return Erasure(newest + 1, changed, [name for name in texts if not usable.get(name)])


def _rows(
    person: User, names: dict[str, bool], labs: list[Lab], number: int, now: int
) -> list[ErasedName]:
    pepper = max(settings.TOKEN_PEPPERS)
    rows: dict[tuple[int, str], ErasedName] = {}
    for lab_id, position, name in (
        (ACCOUNTS, 1, person.get_username()),
        *((lab.pk, i, name) for lab in labs for i, name in enumerate(names, 1)),
    ):
        digest = name_digest(lab_id, name, pepper)
        rows.setdefault(
            (lab_id, digest),
            ErasedName(
                lab_id=lab_id, number=number, position=position, words=words_of(name),
                in_texts=bool(lab_id) and names.get(name, False),
                pepper=pepper, digest=digest, erased_us=now,
            ),
        )  # fmt: skip
    known = set(ErasedName.objects.values_list("lab_id", "digest"))
    return [row for key, row in rows.items() if key not in known]


def _account_digest(person: User) -> str:
    return name_digest(ACCOUNTS, person.get_username(), max(settings.TOKEN_PEPPERS))


def _refuse_last_admin(lab: Lab, person: User) -> None:
    admins = Membership.objects.filter(lab=lab, role=Role.ADMIN, user__is_active=True)
    if admins.filter(user=person).exists() and not admins.exclude(user=person).exists():
        raise Conflict(
            "This person is the last admin of the lab.",
            hint="Give another person the role admin first.",
        )


def _erase_account(person: User, number: int, now: int) -> dict[str, int]:
    """Remove everything of the account but its number, which runs and entries refer to."""
    tokens = Token.objects.filter(Q(user=person) | Q(created_by=person, kind__in=SERVICE_KINDS))
    tokens.filter(revoked_us__isnull=True).update(revoked_us=now)
    Token.objects.filter(user=person).update(name="")
    OneTimeCode.objects.filter(user=person).delete()
    Invitation.objects.filter(Q(accepted_by=person) | Q(email__in=account_names(person))).delete()
    Membership.objects.filter(user=person).delete()
    for model in (EmailAddress, SocialAccount, Authenticator):
        model.objects.filter(user=person).delete()
    for session in Session.objects.iterator():
        if session.get_decoded().get("_auth_user_id") == str(person.pk):
            session.delete()
    person.username, person.email = label_of(number), ""
    person.first_name = person.last_name = ""
    person.is_active, person.last_login = False, None
    person.set_unusable_password()
    person.save()
    return {"accounts.User": 1}


def _erase_in_lab(
    lab: Lab, person: User | None, number: int, by: User | None, now: int, *, applied_again: bool
) -> dict[str, int]:
    names = ErasedNames(lab.pk, ErasedName.objects.filter(lab_id=lab.pk))
    changed = replace_in_lab(lab, names)
    names_replaced.send(sender=Lab, lab=lab)
    Lab.objects.filter(pk=lab.pk).update(has_erased_names=True)
    enqueue(kind=REPLACE_JOB, key=str(lab.pk), due_us=now + REPLACE_DELAY_US)

    def change(row: Any) -> bool:
        before = (row.actor, row.subject, row.details)
        row.actor = names.text(row.actor, Reading.NAME)
        row.subject = names.text(row.subject)
        row.details = names.replace(row.details, keys=True)
        return bool(before != (row.actor, row.subject, row.details))

    # Names that no entry referred to, because they were unknown when it was written.
    rechain.rechain(AuditEntry, audit.hold(lab), change, now)
    audit.record(
        lab=lab,
        by=by,
        action=Act.PERSON_ERASED,
        subject=label_of(number),
        details={
            "user_id": person.pk if person else None,
            "changed_values": sum(changed.values()),
            "applied_again_after_a_restore": applied_again,
        },
        now=now,
    )
    return changed


@job(REPLACE_JOB)
def replace_names_job(key: str) -> None:
    """Replace names that were uploaded while a person was erased."""
    with transaction.atomic():
        lab = audit.hold(Lab(pk=int(key)))
        replace_in_lab(lab, erased_names(lab.pk))
        names_replaced.send(sender=Lab, lab=lab)


@receiver(erasures_missing, dispatch_uid="accounts.erase_again")
@transaction.atomic
def erase_again(sender: Any, rows: list[ErasedName], now: int, **kwargs: Any) -> None:
    """Apply erasures to a database that was restored from a backup of before."""
    ErasedName.objects.bulk_create(rows)
    accounts = {row.digest: row.number for row in rows if row.lab_id == ACCOUNTS}
    peppers = {row.pepper for row in rows if row.lab_id == ACCOUNTS}
    persons: dict[int, User] = {}
    labs: set[tuple[int, int]] = {(row.lab_id, row.number) for row in rows if row.lab_id}
    for person in User.objects.order_by("pk"):
        for pepper in peppers:
            number = accounts.get(name_digest(ACCOUNTS, person.get_username(), pepper))
            if number is not None:
                persons[number] = person
                labs |= {(lab.pk, number) for lab in labs_of(person)}
                _erase_account(person, number, now)
                break
    for lab_id, number in sorted(labs):
        lab = Lab.objects.filter(pk=lab_id).first()
        if lab is not None:
            _erase_in_lab(lab, persons.get(number), number, None, now, applied_again=True)
    transaction.on_commit(forget_tokens)
