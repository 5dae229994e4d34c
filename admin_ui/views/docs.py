"""The documents of the platform. Public: they are what the repository has, and somebody who cannot sign in yet needs them most."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse

from admin_ui.access import page
from admin_ui.docs_site import library
from admin_ui.docs_site.markdown import page_of
from admin_ui.docs_site.search import search
from admin_ui.pages import show


@page
def docs(request: HttpRequest) -> HttpResponse:
    return _show(request, "pages/docs.html")


@page
def docs_page(request: HttpRequest, page: str) -> HttpResponse:
    document = library.documents().get(page)
    if document is None:
        raise Http404
    section = library.section_of(document.address)
    return _show(request, "pages/docs_page.html", document=document, page=page_of(document), section=section)


@page
def docs_search(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    return _show(request, "pages/docs_search.html", query=query, found=search(query))


@page
def docs_picture(request: HttpRequest, picture: str) -> HttpResponse:
    file = library.pictures().get(picture)
    if file is None:
        raise Http404
    response = HttpResponse(file.read_bytes(), content_type=library.PICTURES[file.suffix])
    response["Cache-Control"] = "max-age=3600"
    return response


def _show(request: HttpRequest, template: str, **context: Any) -> HttpResponse:
    return show(request, template, sections=library.sections(), **context)
