"""Undo of an import, removal of single assets, and undo of both over the API."""

from collections.abc import Callable
from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.permissions import caller, require
from apps.assets.api.assets import asset_of
from apps.assets.api.imports import ImportReply, import_response
from apps.assets.choices import ImportState
from apps.assets.models import Asset, RegisterImport
from apps.assets.services.csv_import import import_of, start
from apps.assets.services.import_tasks import is_long
from apps.assets.services.undo import (
    UndoPlan,
    plan_redo,
    plan_undo,
    redo_import,
    remove_asset,
    restore_asset,
    undo_import,
)
from apps.core.clock import now_us
from apps.core.errors import NotFound


class UndoStepReply(serializers.Serializer[Any]):
    """One asset of an undo. ``reason``: why it is refused, empty if it is not."""

    asset = serializers.IntegerField(source="asset.pk")
    name = serializers.CharField(source="asset.name")
    tag = serializers.CharField(source="asset.tag")
    kind = serializers.CharField(
        source="change.kind", help_text="registered: it is removed; changed: it is changed back"
    )
    reason = serializers.CharField()


class UndoReply(serializers.Serializer[Any]):
    """What an undo does, and what it refuses."""

    possible = UndoStepReply(many=True)
    refused = UndoStepReply(many=True)


class UndoBody(serializers.Serializer[Any]):
    """``leave_out``: assets that stay as they are."""

    leave_out = serializers.ListField(
        child=serializers.IntegerField(min_value=1), required=False, max_length=20_000
    )


class _ImportAction(APIView):
    permission_classes = (require("assets:write"),)
    plan: ClassVar[Callable[..., UndoPlan]]
    execute: ClassVar[Callable[..., UndoPlan]]
    state: ClassVar[ImportState]

    def _planned(self, request: Request, uuid: UUID) -> Response:
        row = self._row(request, uuid)
        return Response(UndoReply(type(self).plan(row)).data)

    def _executed(self, request: Request, uuid: UUID) -> Response:
        row = self._row(request, uuid)
        body = UndoBody(data=request.data)
        body.is_valid(raise_exception=True)
        leave_out = body.validated_data.get("leave_out", [])
        by = caller(request).user
        if is_long(row):
            start(row=row, state=self.state, by=by, leave_out=leave_out)
            return import_response(row)
        done = type(self).execute(row=row, leave_out=leave_out, by=by, now=now_us())
        return Response(UndoReply(done).data)

    def _row(self, request: Request, uuid: UUID) -> RegisterImport:
        return import_of(caller(request).lab, uuid)


class ImportUndoView(_ImportAction):
    plan, execute = staticmethod(plan_undo), staticmethod(undo_import)
    state = ImportState.UNDOING

    @extend_schema(responses=UndoReply, operation_id="assets_import_undo_plan")
    def get(self, request: Request, uuid: UUID) -> Response:
        """Return what the undo of an import would do, and which assets it refuses."""
        return self._planned(request, uuid)

    @extend_schema(
        request=UndoBody,
        responses={200: UndoReply, 202: ImportReply},
        operation_id="assets_import_undo",
    )
    def post(self, request: Request, uuid: UUID) -> Response:
        """Undo an import as a whole. If assets are refused, nothing is changed (409) until they are
        left out. An import of more than 500 assets is undone by a job (202): poll its address until
        its state is ``done``; ``error`` says why the job failed.
        """
        return self._executed(request, uuid)


class ImportRedoView(_ImportAction):
    plan, execute = staticmethod(plan_redo), staticmethod(redo_import)
    state = ImportState.REDOING

    @extend_schema(responses=UndoReply, operation_id="assets_import_redo_plan")
    def get(self, request: Request, uuid: UUID) -> Response:
        """Return what the undo of the last undo would do, and which assets it refuses."""
        return self._planned(request, uuid)

    @extend_schema(
        request=UndoBody,
        responses={200: UndoReply, 202: ImportReply},
        operation_id="assets_import_redo",
    )
    def post(self, request: Request, uuid: UUID) -> Response:
        """Undo the last undo of an import. Responses as of its undo."""
        return self._executed(request, uuid)


class AssetRemovalView(APIView):
    permission_classes = (require("assets:write"),)

    @extend_schema(request=None, responses={204: None}, operation_id="asset_remove")
    def post(self, request: Request, asset: int) -> Response:
        """Remove an asset that was registered by mistake, as if it had never been."""
        who = caller(request)
        remove_asset(asset=asset_of(who.lab, asset), by=who.user, now=now_us())
        return Response(status=204)


class AssetRestorationView(APIView):
    permission_classes = (require("assets:write"),)

    @extend_schema(request=None, responses={204: None}, operation_id="asset_restore")
    def post(self, request: Request, asset: int) -> Response:
        """Restore a removed asset."""
        who = caller(request)
        row = Asset.with_removed.filter(lab=who.lab, pk=asset).first() if asset < 2**63 else None
        if row is None:
            raise NotFound("No such asset in your lab.")
        restore_asset(asset=row, by=who.user, now=now_us())
        return Response(status=204)
