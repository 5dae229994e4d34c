"""In which time zone somebody sees times."""

from __future__ import annotations

from django import forms
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui import time_zones
from admin_ui.access import ConsoleRequest, page
from admin_ui.pages import navigation, show, show_message
from admin_ui.translation.texts import gettext


class TimeZoneForm(forms.Form):
    time_zone = forms.ChoiceField(
        required=False,
        label="Times are shown and taken in",
        choices=lambda: [("", gettext("the time zone of the browser")), *((name, name) for name in time_zones.names())],
    )


@page
def time_zone(request: ConsoleRequest) -> HttpResponse:
    form = TimeZoneForm(request.POST or None, initial={"time_zone": request.user.time_zone})
    if request.method == "POST" and form.is_valid():
        request.user.time_zone = form.cleaned_data["time_zone"]
        request.user.save(update_fields=["time_zone"])
        show_message(request, gettext("Times are shown in this zone from now on, and forms take them in it."))
        return HttpResponseRedirect(reverse("console:time_zone"))
    return show(request, "pages/time_zone.html", navigation(request, "account"), form=form, zone=time_zones.zone_name())
