"""A lab's own models and figures with their documents: add and withdraw, with audit records."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction
from django.urls import reverse

from apps.accounts import audit
from apps.accounts.choices import Act
from apps.accounts.models import Lab, User
from apps.catalog.choices import Confidence, FigureMethod, FigureUnit, HardwareKind
from apps.catalog.matching import Draft, completed, match_key
from apps.catalog.models import CURRENT, EmbodiedFigure, Evidence, HardwareAlias, HardwareModel
from apps.catalog.selectors import model_of
from apps.core.errors import Conflict, InvalidInput, NotFound, TooLarge
from apps.core.text import is_unstorable

MOST_EVIDENCE_BYTES = 5 * 1024 * 1024
MOST_ALIASES = 20
OWN_SOURCE, OWN_LICENCE = "stated by the lab", "the lab's own"
_YEARS = range(1970, 2101)


@dataclass(frozen=True)
class Document:
    """An uploaded file."""

    name: str
    content: bytes


def _text(value: str, field: str, most: int, *, needed: str = "") -> str:
    text = " ".join(value.split())
    if is_unstorable(text) or len(text) > most:
        raise InvalidInput(
            f"Invalid {field}: too long, or with a NUL.",
            field=field,
            hint=f"At most {most} characters.",
        )
    if needed and not text:
        raise InvalidInput(f"Missing {field}.", field=field, hint=needed)
    return text


def checked_year(year: int | None, field: str) -> int | None:
    """Return ``year``; raise InvalidInput for a year in which no hardware was sold."""
    if year is not None and year not in _YEARS:
        raise InvalidInput(
            f"Invalid year {year}.",
            field=field,
            hint="Enter a year such as 2024, or leave the field empty.",
        )
    return year


@transaction.atomic
def add_model(
    *,
    lab: Lab,
    kind: str,
    name: str,
    by: User,
    now: int,
    vendor: str = "",
    aliases: Sequence[str] = (),
    release_year: int | None = None,
    tdp_mw: int | None = None,
) -> HardwareModel:
    """Add a model that only this lab sees.

    ``aliases``: its names in drivers, invoices and spreadsheets. Raises Conflict if one of its
    names belongs to a model that the lab can see.
    """
    if kind not in HardwareKind.values:
        kinds = ", ".join(HardwareKind.values)
        raise InvalidInput(
            f"{kind[:40]!r} is not a kind of hardware.", field="kind", hint=f"Use one of {kinds}."
        )
    name = _text(
        name, "name", 200, needed="Write it as on the invoice, for example Dell PowerEdge R760."
    )
    others = [_text(alias, "aliases", 200) for alias in aliases if alias.strip()]
    if len(others) > MOST_ALIASES:
        raise InvalidInput(
            f"Too many other names: {len(others)}.",
            field="aliases",
            hint=f"At most {MOST_ALIASES}.",
        )
    audit.hold(lab)  # serialises additions of the same name
    for text in (name, *others):
        _free(lab, kind, text)
    model = HardwareModel.objects.create(
        lab=lab,
        kind=kind,
        name=name,
        match_key=match_key(name),
        vendor=_text(vendor, "vendor", 60),
        release_year=checked_year(release_year, "release_year"),
        tdp_mw=tdp_mw,
        source=OWN_SOURCE,
        licence=OWN_LICENCE,
        added_by=by,
        added_us=now,
    )
    keys = sorted({match_key(alias) for alias in others} - {model.match_key})
    HardwareAlias.objects.bulk_create([HardwareAlias(model=model, match_key=key) for key in keys])
    details = {"kind": kind, "aliases": ", ".join(others), "tdp_mw": tdp_mw}
    audit.record(lab=lab, by=by, action=Act.MODEL_ADDED, subject=name, details=details, now=now)
    return model


def _free(lab: Lab, kind: str, name: str) -> None:
    if not match_key(name):
        raise InvalidInput(
            f"{name!r} is not the name of a model.",
            field="name",
            hint="Enter more than the vendor.",
        )
    known = model_of(kind, name, lab)
    if known:
        raise Conflict(
            f"{name!r} is in the catalogue as {known.name!r}.",
            field="name",
            hint=f"Upload a figure to it: {reverse('catalog-model', args=[known.pk])}",
        )


@transaction.atomic
def add_figure(
    *,
    lab: Lab,
    model: HardwareModel,
    draft: Draft,
    by: User,
    now: int,
    document: Document | None = None,
) -> EmbodiedFigure:
    """Record a figure that only this lab sees.

    It supersedes the lab's own of the same method and unit. Raises InvalidInput for impossible
    figures (see :func:`~apps.catalog.matching.completed`) and for a document that is not a PDF,
    TooLarge above 5 MiB, NotFound for a model of another lab.
    """
    if model.lab_id not in (None, lab.pk):
        raise NotFound("There is no such model in this lab.")
    if model.retired_us is not None:
        raise Conflict(
            f"{model.name} was removed from the catalogue.", hint="Add it as a model of your lab."
        )
    if draft.method not in FigureMethod.values or draft.unit not in FigureUnit.values:
        raise InvalidInput(
            "Unknown method or unit.",
            field="method",
            hint=f"Methods: {', '.join(FigureMethod.values)}.",
        )
    full = completed(draft)
    evidence = _evidence(document)
    audit.hold(lab)
    former = EmbodiedFigure.objects.filter(
        CURRENT, lab=lab, model=model, method=full.method, unit=full.unit
    ).first()
    if former:
        _supersede(former, by, now)
    figure = EmbodiedFigure.objects.create(
        lab=lab, model=model, uploaded_by=by, uploaded_us=now, **_fields(full)
    )
    if evidence:
        evidence.figure = figure
        evidence.save()
    details = {
        "total_ug": figure.total_ug,
        "unit": figure.unit,
        "method": figure.method,
        "source": figure.source,
        "supersedes": former.pk if former else None,
        "evidence_sha256": evidence.sha256 if evidence else "",
    }
    audit.record(
        lab=lab, by=by, action=Act.FIGURE_UPLOADED, subject=model.name, details=details, now=now
    )
    return figure


def _fields(full: Draft) -> dict[str, object]:
    assert full.total_ug is not None
    return {
        "method": full.method,
        "unit": full.unit,
        "manufacture_ug": full.manufacture_ug,
        "transport_ug": full.transport_ug,
        "end_of_life_ug": full.end_of_life_ug,
        "total_ug": full.total_ug,
        "low_ug": full.low_ug,
        "high_ug": full.high_ug,
        "includes_end_of_life": full.includes_end_of_life,
        "lifetime_years_typical": full.lifetime_years_typical,
        "source": _text(full.source, "source", 500, needed="Write who published it and where."),
        "source_year": checked_year(full.source_year, "source_year"),
        "licence": OWN_LICENCE,
        "confidence": Confidence.STATED,
        "note": _text(full.note, "note", 500),
    }


def _evidence(document: Document | None) -> Evidence | None:
    if document is None:
        return None
    size = len(document.content)
    if size > MOST_EVIDENCE_BYTES:
        raise TooLarge(
            f"{document.name[:100]} has {size:,} bytes.",
            field="evidence",
            hint="At most 5 MiB (5,242,880 bytes).",
        )
    if not document.content.startswith(b"%PDF-") or not document.name.lower().endswith(".pdf"):
        raise InvalidInput(
            f"{document.name[:100]!r} is not a PDF.",
            field="evidence",
            hint="Save the page as PDF and upload that file.",
        )
    name = document.name.replace("\\", "/").rpartition("/")[2]
    return Evidence(
        file_name=_text(name, "evidence", 200),
        size_bytes=size,
        sha256=hashlib.sha256(document.content).hexdigest(),
        content=document.content,
    )


def _supersede(figure: EmbodiedFigure, by: User, now: int) -> None:
    EmbodiedFigure.objects.filter(CURRENT, pk=figure.pk).update(superseded_us=now, superseded_by=by)


@transaction.atomic
def withdraw_figure(*, lab: Lab, figure: EmbodiedFigure, by: User, now: int) -> None:
    """Withdraw a figure of the lab's own. References to it stay, and it is no longer used."""
    if figure.lab_id != lab.pk:
        raise NotFound("There is no such figure of this lab's own.")
    audit.hold(lab)
    if not EmbodiedFigure.objects.filter(CURRENT, pk=figure.pk).exists():
        raise Conflict("This figure is already superseded.", hint="Reload the page.")
    _supersede(figure, by, now)
    details = {"total_ug": figure.total_ug, "method": figure.method, "figure": figure.pk}
    audit.record(
        lab=lab,
        by=by,
        action=Act.FIGURE_WITHDRAWN,
        subject=figure.model.name,
        details=details,
        now=now,
    )


@transaction.atomic
def retire_model(*, lab: Lab, model: HardwareModel, by: User, now: int) -> None:
    """Remove a model of the lab's own from the catalogue.

    It matches no names from then on. References to it stay.
    """
    if model.lab_id != lab.pk:
        raise NotFound("There is no such model of this lab's own.")
    audit.hold(lab)
    if not HardwareModel.objects.filter(pk=model.pk, retired_us__isnull=True).update(
        retired_us=now
    ):
        raise Conflict(
            f"{model.name} is already removed from the catalogue.", hint="Reload the page."
        )
    audit.record(
        lab=lab,
        by=by,
        action=Act.MODEL_RETIRED,
        subject=model.name,
        details={"kind": model.kind},
        now=now,
    )
