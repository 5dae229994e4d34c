"""To the provider and back."""

from __future__ import annotations

from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from admin_ui.sign_in.openid.provider import ConsoleOpenIDAdapter


def login(request: HttpRequest, provider_id: str) -> HttpResponse:
    """A page that goes to the provider: our policy of content lets forms lead to no other site."""
    adapter = _adapter(request, provider_id)
    response: HttpResponse = OAuth2LoginView.adapter_view(adapter)(request)
    if response.status_code != 302:
        return response
    context = {"address": response["Location"], "provider": adapter.get_provider()}
    return render(request, "socialaccount/to_provider.html", context)


def callback(request: HttpRequest, provider_id: str) -> HttpResponse:
    response: HttpResponse = OAuth2CallbackView.adapter_view(_adapter(request, provider_id))(request)
    return response


def _adapter(request: HttpRequest, provider_id: str) -> ConsoleOpenIDAdapter:
    adapter = ConsoleOpenIDAdapter(request, provider_id)
    try:
        adapter.get_provider()
    except SocialApp.DoesNotExist:
        raise Http404 from None
    return adapter
