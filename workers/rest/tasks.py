"""Tasks, their runs, and what an administrator decides about those that were quarantined."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from messaging.errors import InvalidValue, NotFound
from tenants.rest.base import View, page
from tenants.rest.schema import PAGE, describe, page_of
from workers.history import decide, overview
from workers.models import TaskRun
from workers.rest import shapes

FILTERS = [
    *PAGE,
    OpenApiParameter("task", str, description="Only runs of this task."),
    OpenApiParameter("outcome", str, description="Only runs with this outcome, such as `quarantined`."),
]


class Tasks(View):
    @describe("The tasks that workers run, and when each ran last", page_of(shapes.TaskShape))
    def get(self, request: Request) -> Response:
        return Response({"items": overview(), "next": None})


class TaskRuns(View):
    @describe("Runs of tasks, by id", page_of(shapes.TaskRunShape), parameters=FILTERS)
    def get(self, request: Request) -> Response:
        rows = TaskRun.objects.all()
        for name, field in (("task", "name"), ("outcome", "outcome")):
            wanted = request.query_params.get(name)
            if wanted and "\x00" in wanted:
                raise InvalidValue(f"`{name}` is not the name of a {name}")
            if wanted:
                rows = rows.filter(**{field: wanted})
        return page(request, rows, "task_id", shapes.show_run)


class TaskRunOne(View):
    @describe("A run of a task", shapes.TaskRunShape)
    def get(self, request: Request, run_id: str) -> Response:
        run = TaskRun.objects.filter(task_id=run_id).first()
        if run is None:
            raise NotFound(f"task run {run_id[:64]!r} does not exist")
        return Response(shapes.show_run(run))

    @describe("Give up a quarantined run", shapes.TaskRunShape)
    def delete(self, request: Request, run_id: str) -> Response:
        return Response(shapes.show_run(decide(self.actor(), run_id, "discard")))


class TaskRunRequeue(View):
    @describe("Try a quarantined run again", shapes.TaskRunShape)
    def post(self, request: Request, run_id: str) -> Response:
        return Response(shapes.show_run(decide(self.actor(), run_id, "requeue")))
