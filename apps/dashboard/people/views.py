"""People: who is in the lab, their roles, invitations; and the way in by an invitation."""

from typing import cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.middleware.csrf import rotate_token
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from apps.accounts.choices import Role
from apps.accounts.models import User
from apps.accounts.selectors import LAB_KEY
from apps.accounts.services.invitations import accept_invitation, invitation_by_code, invite, revoke_invitation
from apps.accounts.services.members import change_role, remove_member
from apps.carbon.figures.visibility import visibility_for
from apps.core.clock import now_us
from apps.core.errors import LabCarbonError
from apps.dashboard.decorators import ADMINS, MANAGERS, Visitor, or_not_found, page, public
from apps.dashboard.people.pages import people_page, person_page
from apps.dashboard.period_menu import period_menu, requested_period
from apps.dashboard.setup.services import accept_as_new_person
from apps.dashboard.setup.views import BACKEND


@never_cache
@page("GET", "POST")
def people(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List people; POST invites somebody and shows the link this once."""
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    link = ""
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.require_role(MANAGERS)
        try:
            _, code = invite(
                lab=visitor.lab,
                role=request.POST.get("role", ""),
                by=visitor.user,
                now=visitor.now,
                email=request.POST.get("email", ""),
                note=request.POST.get("note", ""),
            )
            link = f"{settings.SITE_URL}{reverse('invitation')}?code={code}"
        except LabCarbonError as wrong:
            error = wrong
    typed = {} if link else request.POST
    menu = period_menu(request, period)
    context = {"page": people_page(visitor, period), "menu": menu, "link": link, "error": error, "typed": typed}
    return render(request, "dashboard/people/people.html", context, status=error.status if error else 200)


@page()
def person(request: HttpRequest, visitor: Visitor, person: int) -> HttpResponseBase:
    """Show what one person used, to those who may see it."""
    member = _person(visitor, person)
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    visibility = visibility_for(visitor.lab, visitor.user)
    content = person_page(lab=visitor.lab, person=member, period=period, visibility=visibility)
    return render(request, "dashboard/people/person.html", {"page": content, "menu": period_menu(request, period)})


def _person(visitor: Visitor, pk: int) -> User:
    person = User.objects.filter(pk=pk, memberships__lab=visitor.lab).first()
    return cast("User", or_not_found(person, "person", reverse("people")))


@page("POST")
def person_role(request: HttpRequest, visitor: Visitor, person: int) -> HttpResponseBase:
    """Change a person's role."""
    member = _person(visitor, person)
    visitor.require_role(ADMINS)
    role = request.POST.get("role", "")
    changed = change_role(lab=visitor.lab, person=member, role=role, by=visitor.user, now=visitor.now)
    messages.success(request, f"{member.get_username()} is {Role(changed.role).label} now.")
    return HttpResponseRedirect(reverse("people"))


@page("POST")
def person_remove(request: HttpRequest, visitor: Visitor, person: int) -> HttpResponseBase:
    """Remove a person from the lab."""
    member = _person(visitor, person)
    visitor.require_role(ADMINS)
    remove_member(lab=visitor.lab, person=member, by=visitor.user, now=visitor.now)
    messages.success(request, f"{member.get_username()} is out of the lab, and their tokens have ended.")
    return HttpResponseRedirect(reverse("overview") if member.pk == visitor.user.pk else reverse("people"))


@page("POST")
def invitation_revoke(request: HttpRequest, visitor: Visitor, invitation: int) -> HttpResponseBase:
    """End an open invitation."""
    revoke_invitation(lab=visitor.lab, pk=invitation, by=visitor.user, now=visitor.now)
    messages.success(request, "The invitation is revoked; its link works no more.")
    return HttpResponseRedirect(reverse("people"))


@page("POST")
def switch_lab(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Go on in another lab of one's own. Forms that are open in other tabs become too old, so none lands in this lab."""
    slug = request.POST.get("lab", "")
    lab = or_not_found(next((lab for lab in visitor.labs if lab.slug == slug), None), "lab of yours", "the menu of labs")
    request.session[LAB_KEY] = lab.pk
    rotate_token(request)
    return HttpResponseRedirect(reverse("overview"))


@never_cache
@public("GET", "POST")
def invitation(request: HttpRequest) -> HttpResponseBase:
    """Join a lab by an invitation: with one's account, or with a new one. Looking does not use it up."""
    code = request.POST.get("code") or request.GET.get("code", "")
    if request.method == "POST":
        try:
            return _join(request, code)
        except LabCarbonError as wrong:
            return _invitation_page(request, code, wrong)
    return _invitation_page(request, code, None)


def _invitation_page(request: HttpRequest, code: str, error: LabCarbonError | None) -> HttpResponse:
    offer = None
    if code and (error is None or error.code != "bad_invitation"):
        try:
            offer = invitation_by_code(code, now_us())
        except LabCarbonError as wrong:
            error = wrong
    context = {"code": code, "offer": offer, "error": error, "username": request.POST.get("username", "")}
    return render(request, "dashboard/people/invitation.html", context, status=error.status if error else 200)


def _join(request: HttpRequest, code: str) -> HttpResponseBase:
    if request.user.is_authenticated:
        joined = accept_invitation(code=code, user=request.user, now=now_us())
    else:
        joined = accept_as_new_person(
            code=code,
            username=request.POST.get("username", ""),
            password=request.POST.get("password", ""),
            now=now_us(),
        )
        login(request, joined.user, backend=BACKEND)
    request.session[LAB_KEY] = joined.lab_id
    messages.success(request, f"You are in {joined.lab.name} now, as {Role(joined.role).label}.")
    return HttpResponseRedirect(reverse("overview"))
