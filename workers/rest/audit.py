"""The verification of the audit log, by a worker."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from messaging.errors import NotFound
from tenants.rest.base import View
from tenants.rest.schema import describe
from workers.audit_actions import last_verification, verify_audit_log
from workers.rest import shapes


class AuditVerification(View):
    @describe("The newest verification of the whole audit log: what was found is its summary", shapes.TaskRunShape)
    def get(self, request: Request) -> Response:
        run = last_verification()
        if run is None:
            raise NotFound("the audit log has not been verified yet: ask for it with POST")
        return Response(shapes.show_run(run))

    @describe("Verify the whole audit log now; its state is that of the task run", shapes.TaskRunShape, status=202)
    def post(self, request: Request) -> Response:
        return Response(shapes.show_run(verify_audit_log(self.actor())), status=202)
