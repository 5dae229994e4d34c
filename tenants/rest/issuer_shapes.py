"""The objects of token issuers."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from messaging.bodies import Text, Time
from messaging.limits import rest as limits
from messaging.limits.model import Limit
from tenants.actions.issuers import key_ids
from tenants.models import TokenIssuer
from tenants.rest.shapes import shown

ClaimText = Annotated[Text, Limit("a claim of a token", bytes_max=255)]
Roles = Annotated[
    dict[str, Text],
    Limit("each is looked for in every token", bytes_max=255, count_max=50),
    Meta(
        description="Value of the claim -> name of a key, whose role (name@tenant) its tokens have. The first that is there counts."
    ),
]


class TokenIssuerShape(msgspec.Struct, kw_only=True):
    name: str
    issuer: str
    audience: str
    jwks_url: str
    role_claim: str
    roles: dict[str, str]
    clock_skew_s: int
    key_ids: Annotated[list[str], Meta(description="Of the keys that verify its tokens now; none before they were fetched.")]
    fetched_at: Annotated[Time | None, Meta(description="When its keys were fetched last.")]
    tried_at: Annotated[Time | None, Meta(description="When that was tried last.")]
    problem: Annotated[str, Meta(description="Why the last attempt failed; empty: it did not. The keys of before stay.")]
    created_at: Time


class NewTokenIssuer(msgspec.Struct, kw_only=True):
    issuer: Annotated[ClaimText, Meta(description="The claim `iss` of its tokens.")]
    audience: Annotated[ClaimText, Meta(description="The claim `aud`: tokens for somebody else are refused.")]
    jwks_url: Annotated[
        Text,
        Limit("an address", bytes_max=1000),
        Meta(description="Of its keys, as JWKS. How it begins is in the setting token_issuers_allowed."),
    ]
    roles: Roles
    role_claim: Annotated[str, limits.NAME, Meta(description="A text, or a list of texts such as groups; default `sub`.")] = "sub"
    clock_skew_s: Annotated[
        int,
        Limit("ten minutes", minimum=0, maximum=600),
        Meta(description="How far its clock may be off, for the beginning and the end of its tokens; default 60."),
    ] = 60


def show_issuer(row: TokenIssuer) -> TokenIssuerShape:
    return shown(TokenIssuerShape, row, key_ids=key_ids(row))
