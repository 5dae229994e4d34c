"""Why somebody may do something in a tenant, and who else may."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from messaging.permissions.model import Resource
from tenants import explanations
from tenants.names import namespace_of, subscription_of, topic_of
from tenants.rest import shapes
from tenants.rest.base import View, existing_namespace
from tenants.rest.schema import ACCESS, describe
from tenants.rest.tenants import existing


class Explanation(View):
    @describe("Why a role or key may do something, and who else may", shapes.AccessShape, parameters=ACCESS)
    def get(self, request: Request, tenant: str) -> Response:
        asked = {
            name: request.query_params.get(name, "") for name in ("action", "namespace", "topic", "subscription", "role", "key_id")
        }
        existing(tenant)
        question = explanations.Question(explanations.action_of(asked["action"]), resource_asked(tenant, asked))
        subject = explanations.subject_of(tenant, asked["role"], asked["key_id"])
        answer, others = explanations.why(question, subject), explanations.who(tenant, question)
        return Response(shapes.show_access(answer, others))


def resource_asked(tenant: str, asked: dict[str, str]) -> Resource:
    """Raises `InvalidName`, `NotFound` for a namespace that does not exist."""
    if not asked["namespace"]:
        return Resource(tenant)
    existing_namespace(tenant, asked["namespace"])
    name = str(namespace_of(tenant, asked["namespace"]))
    parts = {"tenant": tenant, "namespace": asked["namespace"], "topic": asked["topic"]}
    topic = str(topic_of(parts)) if asked["topic"] else ""
    return Resource(tenant, name, topic, subscription_of(asked["subscription"]) if asked["subscription"] else "")
