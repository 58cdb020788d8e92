"""The live page of a node. htmx requests only its changing part."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotModified
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse

from apps.accounts.selectors import may_see_person
from apps.carbon.figures.visibility import Visibility, visibility_for
from apps.dashboard.decorators import Visitor, or_not_found, page
from apps.dashboard.nodes.live_page import live_page
from apps.dashboard.nodes.live_windows import live_node


@page()
def live(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show the last 15 minutes of a node. A request of htmx gets the part that changes, 304 if it
    is the same as the one that it has. One query for the content.
    """
    content = or_not_found(live_node(visitor.lab, uuid, visitor.now), "node", reverse("nodes"))
    is_part = bool(request.headers.get("HX-Request"))
    policy = (visitor.user.pk, visitor.role, visitor.lab.person_view, visitor.lab.time_zone)
    tag = f'"{content.version}-{"-".join(map(str, policy))}"'
    if is_part and request.headers.get("If-None-Match") == tag:
        response: HttpResponse = HttpResponseNotModified()
        response["ETag"] = tag
        return response
    context = {
        "page": live_page(
            live=content,
            visibility=_visibility(visitor),
            zone=visitor.zone,
            now=visitor.now,
            version=tag,
        )
    }
    if is_part:
        text = render_to_string("dashboard/nodes/live_part.html", {**context, "visitor": visitor})
        response = HttpResponse(text)
        response["ETag"] = tag
        return response
    return render(request, "dashboard/nodes/live.html", context)


def _visibility(visitor: Visitor) -> Visibility:
    if may_see_person(visitor.role, visitor.lab.person_view, own=False):
        return Visibility(True, visitor.user.pk, frozenset())
    return visibility_for(visitor.lab, visitor.user)
