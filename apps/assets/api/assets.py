"""API of assets: register, single assets, lifecycle events and their reversal."""

from typing import Any

from django.http import QueryDict
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.models import Lab
from apps.accounts.permissions import caller, require
from apps.accounts.selectors import require_project
from apps.assets.amortisation import account
from apps.assets.choices import AssetState
from apps.assets.models import Asset, LifecycleEvent
from apps.assets.serializers import (
    AssetBody,
    AssetDetail,
    AssetReply,
    BulkEventBody,
    BulkEventReply,
    EventBody,
    EventReply,
    FactsBody,
    ReversalBody,
    draft_of,
    entry_of,
    facts_of,
)
from apps.assets.services import describe, record, register, reverse
from apps.assets.services.bulk_effect import record_with_effect
from apps.assets.services.charges import as_charge, events_of
from apps.catalog.choices import HardwareKind
from apps.core.api import NumberCursorPagination
from apps.core.clock import now_us
from apps.core.errors import InvalidInput, NotFound
from apps.core.text import is_unstorable
from apps.core.units import hour_of

FILTERS = ("kind", "state", "owner", "site", "tag", "serial")


class ReadOrWrite(APIView):
    """Reading requires reports:read, everything else assets:write."""

    def get_permissions(self) -> list[Any]:
        return [require("reports:read" if self.request.method == "GET" else "assets:write")()]


class ById(NumberCursorPagination):
    ordering: str | tuple[str, ...] = "-id"
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 500


class InOrder(ById):
    ordering = ("hour", "id")


def asset_of(lab: Lab, pk: int) -> Asset:
    """Return an asset of the lab. Raises NotFound for unknown assets and assets of other labs."""
    rows = Asset.objects.filter(lab=lab).select_related(
        "lab", "model", "owner", "borrower", "site", "parent"
    )
    asset = rows.filter(pk=pk).first() if pk < 2**63 else None
    if asset is None:
        raise NotFound("No such asset in this lab.")
    return asset


def _asset_response(asset: Asset) -> dict[str, Any]:
    """Return one asset with its account to date."""
    events = events_of([asset.pk])[asset.pk]
    now_hour = hour_of(now_us()) + 1
    balance = account(events, [as_charge(row) for row in asset.charges.all()], now_hour)
    known = any(event.total_ug is not None for event in events)
    parts = ("total_ug", "charged_ug", "written_off_ug", "balance_ug")
    amounts = {
        "known": known,
        **{name: getattr(balance, name) if known else None for name in parts},
    }
    return dict(AssetDetail(asset, context={"account": amounts}).data)


def _known_filters(params: QueryDict) -> None:
    unknown = sorted(set(params) - {*FILTERS, "cursor", "page_size"})
    if unknown:
        raise InvalidInput(
            f"{unknown[0]!r} is not a filter.",
            field=unknown[0],
            hint=f"Known: {', '.join(FILTERS)}.",
        )
    for name, value in params.items():
        if is_unstorable(str(value)):
            raise InvalidInput("Invalid character in filter.", field=name)
    for name, known in (("kind", HardwareKind.values), ("state", AssetState.values)):
        if params.get(name) and params[name] not in known:
            raise InvalidInput(
                f"{params[name]!r} is not a {name}.",
                field=name,
                hint=f"Use one of {', '.join(known)}.",
            )


class AssetsView(ReadOrWrite):
    @extend_schema(
        parameters=[
            OpenApiParameter(name, OpenApiTypes.STR) for name in (*FILTERS, "cursor", "page_size")
        ],
        responses=AssetReply(many=True),
        operation_id="assets_list",
    )
    def get(self, request: Request) -> Response:
        """List assets, the last registered first, by pages."""
        params = request.query_params
        _known_filters(params)
        lab = caller(request).lab
        if owner := params.get("owner"):
            require_project(lab, owner, "owner")
        if (site := params.get("site")) and not lab.sites.filter(name=site).exists():
            raise InvalidInput(
                f"There is no site {site[:60]!r} in this lab.",
                field="site",
                hint="Use the name of a site.",
            )
        assets = Asset.objects.filter(lab=lab).select_related("model", "owner", "borrower", "site")
        paths = {"owner": "owner__slug", "site": "site__name"}
        assets = assets.filter(
            **{paths.get(name, name): params[name] for name in FILTERS if params.get(name)}
        )
        pages = ById()
        page = pages.paginate_queryset(assets, request, view=self)
        return pages.get_paginated_response(AssetReply(page, many=True).data)

    @extend_schema(request=AssetBody, responses={201: AssetDetail}, operation_id="assets_register")
    def post(self, request: Request) -> Response:
        """Register an asset with how it was bought."""
        body = AssetBody(data=request.data)
        body.is_valid(raise_exception=True)
        who = caller(request)
        new_asset = register(
            lab=who.lab, draft=draft_of(who.lab, body.validated_data), by=who.user, now=now_us()
        )
        return Response(_asset_response(asset_of(who.lab, new_asset.pk)), status=201)


class AssetView(ReadOrWrite):
    @extend_schema(responses=AssetDetail, operation_id="assets_retrieve")
    def get(self, request: Request, asset: int) -> Response:
        """Return an asset and what became of its embodied carbon until now."""
        return Response(_asset_response(asset_of(caller(request).lab, asset)))

    @extend_schema(
        request=FactsBody(partial=True), responses=AssetDetail, operation_id="assets_describe"
    )
    def patch(self, request: Request, asset: int) -> Response:
        """Change the facts about an asset. Its events and charges do not change."""
        who = caller(request)
        stored_asset = asset_of(who.lab, asset)
        body = FactsBody(data=request.data, partial=True)
        body.is_valid(raise_exception=True)
        facts = facts_of(who.lab, body.validated_data, stored_asset)
        return Response(
            _asset_response(describe(asset=stored_asset, facts=facts, by=who.user, now=now_us()))
        )


class EventsView(ReadOrWrite):
    @extend_schema(
        parameters=[OpenApiParameter(name, OpenApiTypes.STR) for name in ("cursor", "page_size")],
        responses=EventReply(many=True),
        operation_id="asset_events_list",
    )
    def get(self, request: Request, asset: int) -> Response:
        """List the entries of an asset's life in order of time, those that were reversed
        included.
        """
        stored_asset = asset_of(caller(request).lab, asset)
        rows = LifecycleEvent.objects.filter(asset=stored_asset).select_related(
            "project", "site", "reversed_by"
        )
        pages = InOrder()
        page = pages.paginate_queryset(rows, request, view=self)
        return pages.get_paginated_response(EventReply(page, many=True).data)

    @extend_schema(
        request=EventBody, responses={201: EventReply}, operation_id="asset_events_record"
    )
    def post(self, request: Request, asset: int) -> Response:
        """Record an entry of an asset's life; its charges follow at once."""
        who = caller(request)
        stored_asset = asset_of(who.lab, asset)
        body = EventBody(data=request.data)
        body.is_valid(raise_exception=True)
        row = record(
            asset=stored_asset,
            entry=entry_of(who.lab, body.validated_data),
            by=who.user,
            now=now_us(),
        )
        return Response(EventReply(row).data, status=201)


class BulkEventsView(APIView):
    permission_classes = (require("assets:write"),)

    @extend_schema(
        request=BulkEventBody,
        responses={200: BulkEventReply, 201: BulkEventReply},
        operation_id="assets_events_record",
    )
    def post(self, request: Request) -> Response:
        """Record one event for many assets, all or none. ``preview`` records nothing."""
        who = caller(request)
        body = BulkEventBody(data=request.data)
        body.is_valid(raise_exception=True)
        numbers = set(body.validated_data["assets"])
        assets = list(
            Asset.objects.filter(lab=who.lab, pk__in=numbers).select_related("lab", "parent")
        )
        if len(assets) != len(numbers):
            raise NotFound("Some of these assets do not exist in this lab.")
        is_preview = body.validated_data["preview"]
        result = record_with_effect(
            assets=assets,
            entry=entry_of(who.lab, body.validated_data["event"]),
            by=who.user,
            now=now_us(),
            is_preview=is_preview,
        )
        data = {"preview": is_preview, "events": result.events}
        data |= {"before": result.before, "after": result.after}
        return Response(BulkEventReply(data).data, status=200 if is_preview else 201)


class EventReversalView(APIView):
    permission_classes = (require("assets:write"),)

    @extend_schema(
        request=ReversalBody, responses={201: EventReply}, operation_id="asset_events_reverse"
    )
    def post(self, request: Request, asset: int, event: int) -> Response:
        """Reverse an entry by another, as if it had never been."""
        who = caller(request)
        stored_asset = asset_of(who.lab, asset)
        body = ReversalBody(data=request.data)
        body.is_valid(raise_exception=True)
        row = (
            LifecycleEvent.objects.filter(asset=stored_asset, pk=event)
            .select_related("asset")
            .first()
            if event < 2**63
            else None
        )
        if row is None:
            raise NotFound("No such event of this asset.")
        note = body.validated_data.get("note", "")
        return Response(
            EventReply(reverse(event=row, by=who.user, now=now_us(), note=note)).data, status=201
        )
