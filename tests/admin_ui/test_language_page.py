"""The language of a tenant is set on a page of its own."""

from __future__ import annotations

from tenants.models import Tenant
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import Browse

ADDRESS = "/tenants/acme/language"


def test_the_language_of_a_tenant_is_set_on_its_page(world: ConsoleBroker, browse: Browse) -> None:
    owner = browse("owner")
    answer = owner.post(ADDRESS, {"language": "de"}, follow=True)
    assert answer.redirect_chain[-1][0] == "/tenants/acme" and "The language was saved." in answer.content.decode()
    assert Tenant.unscoped.get(name="acme").language == "de"
    assert '<option value="de" selected>' in owner.get(ADDRESS).content.decode()
    assert owner.post(ADDRESS, {"language": "xx"}).status_code == 200
    assert browse("teammate").post(ADDRESS, {"language": ""}).status_code == 403
    assert Tenant.unscoped.get(name="acme").language == "de"
    assert owner.post(ADDRESS, {"language": ""}).status_code == 302
    assert Tenant.unscoped.get(name="acme").language == ""
