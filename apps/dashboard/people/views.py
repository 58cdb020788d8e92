"""Members of the lab, their roles, invitations, and joining by an invitation."""

from typing import cast

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.middleware.csrf import rotate_token
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from apps.accounts.choices import SignInMethod
from apps.accounts.models import User
from apps.accounts.selectors import LAB_KEY
from apps.accounts.services.invitations import invitation_by_code, revoke_invitation
from apps.accounts.services.members import remove_member
from apps.accounts.services.sign_ins import start_session
from apps.carbon.figures.visibility import visibility_for
from apps.core.clock import now_us
from apps.core.errors import LabCarbonError
from apps.dashboard.decorators import ADMINS, Visitor, framed, or_not_found, page, public
from apps.dashboard.forms import PageForm, PageForms
from apps.dashboard.frame.period_menu import period_menu, requested_period
from apps.dashboard.people.erasure_page import (
    ErasureForm,
    NamesForm,
    erasure_page,
    export_response,
    suggested_names,
)
from apps.dashboard.people.forms import InvitationForm, JoinForm, LabSwitchForm, RoleForm
from apps.dashboard.people.people_pages import people_page, person_page


@never_cache
@page("GET", "POST")
def people(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List people; POST creates an invitation and shows its link once."""
    form = InvitationForm.from_request(request, visitor)
    if form.is_bound:
        form.submit()
    return _people_page(request, visitor, form)


def _people_page(request: HttpRequest, visitor: Visitor, submitted: PageForm) -> HttpResponseBase:
    """Show the list of people with a submitted form, or with its errors."""
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    link = submitted.link if isinstance(submitted, InvitationForm) else ""
    is_pending = isinstance(submitted, InvitationForm) and not link
    context = {
        "page": people_page(visitor, period),
        "menu": period_menu(request, period, visitor.now),
        "link": link,
        "submitted": submitted,
        "invitation_form": submitted if is_pending else InvitationForm(visitor),
    }
    return render(request, "dashboard/people/people.html", context, status=submitted.status)


@page()
def person(request: HttpRequest, visitor: Visitor, person: int) -> HttpResponseBase:
    """Show what one person used, to those who may see it."""
    member = _person(visitor, person)
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    visibility = visibility_for(visitor.lab, visitor.user)
    content = person_page(
        lab=visitor.lab, person=member, period=period, visibility=visibility, now=visitor.now
    )
    return render(
        request,
        "dashboard/people/person.html",
        {"page": content, "menu": period_menu(request, period, visitor.now)},
    )


def _person(visitor: Visitor, pk: int) -> User:
    person = User.objects.filter(pk=pk, memberships__lab=visitor.lab).first()
    return cast("User", or_not_found(person, "person", reverse("people")))


@page("POST")
def person_role(request: HttpRequest, visitor: Visitor, person: int) -> HttpResponseBase:
    """Change a person's role."""
    member = _person(visitor, person)
    form = RoleForm.from_request(request, visitor, person=member)
    if not form.submit():
        return _people_page(request, visitor, form)
    messages.success(request, form.message)
    return HttpResponseRedirect(reverse("people"))


@page("POST")
def person_remove(request: HttpRequest, visitor: Visitor, person: int) -> HttpResponseBase:
    """Remove a person from the lab."""
    member = _person(visitor, person)
    visitor.require_role(ADMINS)
    remove_member(lab=visitor.lab, person=member, by=visitor.user, now=visitor.now)
    messages.success(
        request, f"{member.get_username()} removed from the lab. Their tokens are revoked."
    )
    return HttpResponseRedirect(
        reverse("overview") if member.pk == visitor.user.pk else reverse("people")
    )


@page("GET", "POST")
def person_erase(request: HttpRequest, visitor: Visitor, person: int) -> HttpResponseBase:
    """Show what erasing a person removes and keeps. POST ``action``: ``list`` the texts with their
    names, or ``erase`` them.
    """
    member = _person(visitor, person)
    visitor.require_role(ADMINS)
    forms = PageForms(
        request,
        visitor,
        (NamesForm, ErasureForm),
        initial={NamesForm.action: {"names": suggested_names(visitor, member)}},
        person=member,
    )
    form = forms.submitted
    if form and form.submit():
        if isinstance(form, ErasureForm):
            messages.success(request, form.message)
            return HttpResponseRedirect(reverse("people"))
        form = ErasureForm(visitor, person=member, initial=form.cleaned_data)
    confirm_form = form if isinstance(form, ErasureForm) else None
    return render(
        request,
        "dashboard/people/erase.html",
        {
            "page": erasure_page(visitor, member, confirm_form),
            "names_form": forms[NamesForm.action],
            "form": confirm_form,
        },
        status=forms.status,
    )


@page()
def person_export(request: HttpRequest, visitor: Visitor, person: int) -> HttpResponseBase:
    """Download what the lab stores about a person (``format``: json or csv)."""
    member = _person(visitor, person)
    return export_response(visitor, member, request.GET.get("format", "json"))


@page("POST")
def invitation_revoke(request: HttpRequest, visitor: Visitor, invitation: int) -> HttpResponseBase:
    """Revoke an open invitation."""
    revoke_invitation(lab=visitor.lab, pk=invitation, by=visitor.user, now=visitor.now)
    messages.success(request, "Invitation revoked. Its link no longer works.")
    return HttpResponseRedirect(reverse("people"))


@page("POST")
def switch_lab(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Switch to another lab of the person. The new CSRF token invalidates forms of the old lab
    in other tabs.
    """
    form = LabSwitchForm.from_request(request, visitor)
    if form.submit():
        request.session[LAB_KEY] = form.target.pk
        rotate_token(request)
    return HttpResponseRedirect(reverse("overview"))


@never_cache
@framed
@public("GET", "POST")
def invitation(request: HttpRequest) -> HttpResponseBase:
    """Join a lab by an invitation: with one's account, or with a new one. A GET does not use it
    up.
    """
    form = JoinForm(request)
    if form.is_bound and form.submit():
        if not request.user.is_authenticated:
            start_session(
                request=request,
                user=form.membership.user,
                method=SignInMethod.INVITATION,
                now=now_us(),
            )
        request.session[LAB_KEY] = form.membership.lab_id
        messages.success(request, form.message)
        return HttpResponseRedirect(reverse("overview"))
    code, offer, error = form.value_of("code"), None, None
    if code or form.is_bound:
        try:
            offer = invitation_by_code(code, now_us())
        except LabCarbonError as refused:
            error = refused
    context = {"code": code, "offer": offer, "error": error, "form": form}
    return render(
        request,
        "dashboard/people/invitation.html",
        context,
        status=error.status if error else form.status,
    )
