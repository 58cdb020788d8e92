"""Pages of sites: the list, and one site with its grid zone, PUE and electricity price."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.carbon.figures.energy import zones
from apps.dashboard.decorators import MANAGERS, Visitor, or_not_found, page
from apps.dashboard.forms import ACTION, PageForms
from apps.dashboard.nodes.change_preview import Effect
from apps.dashboard.nodes.forms import SITE_FORMS, CreateSiteForm, DeleteForm, SiteForm
from apps.dashboard.nodes.site_pages import site_page, sites_page
from apps.dashboard.setup.services import zone_label
from apps.fleet.selectors import site_of


@page("GET", "POST")
def sites(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List sites. POST creates one."""
    if request.method == "POST":
        visitor.require_role(MANAGERS)
    form = CreateSiteForm.from_request(request, visitor)
    if form.is_bound and form.submit() and form.site is not None:
        messages.success(request, form.message)
        return HttpResponseRedirect(reverse("site", args=[form.site.pk]))
    context = {
        "rows": sites_page(lab=visitor.lab, now=visitor.now),
        "zones": [zone_label(code, name) for code, name in zones()],
        "form": form,
    }
    return render(request, "dashboard/nodes/sites.html", context, status=form.status)


@page("GET", "POST")
def site(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show a site. A GET with an action previews a change of a fact, POST records it."""
    site = or_not_found(site_of(visitor.lab, pk), "site", reverse("sites"))
    if request.method == "POST" or ACTION in request.GET:
        visitor.require_role(MANAGERS)
    initial = {"control": {"control": site.control}, "rename": {"name": site.name}}
    forms = PageForms(request, visitor, SITE_FORMS, initial=initial, site=site)
    effect: Effect | None = None
    form = forms.submitted
    if request.method == "POST" and form is not None:
        if form.submit():
            messages.success(request, form.message)
            deleted = isinstance(form, DeleteForm)
            return HttpResponseRedirect(reverse("sites") if deleted else reverse("site", args=[pk]))
    elif isinstance(form, SiteForm):
        effect = form.preview()
    site = site_of(visitor.lab, pk) or site  # services change the object before they refuse
    context = {
        "page": site_page(
            lab=visitor.lab, site=site, zones=zones(), effect=effect, now=visitor.now
        ),
        "forms": forms,
    }
    return render(request, "dashboard/nodes/site.html", context, status=forms.status)
