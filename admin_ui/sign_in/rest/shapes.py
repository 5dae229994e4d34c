"""The objects of these routes (see `tenants.rest.shapes`)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from messaging.bodies import Text, Time
from messaging.limits.model import Limit
from tenants.actions.invitations import MEMBER_DAYS_MAX

_EMAIL = Limit("a mail address", bytes_max=1_016)
_ROLE = Limit("the name of a role", bytes_max=1_020)


class InvitationShape(msgspec.Struct, kw_only=True):
    id: str
    email: str
    role: Annotated[str, Meta(description="What they become: one of the roles of members.")]
    state: Literal["open", "accepted", "revoked", "expired"]
    works: Annotated[bool, Meta(description="Whether it can be accepted: it is open, and whoever made it may still invite.")]
    mailed: Annotated[bool, Meta(description="Whether the link went to the address by mail.")]
    created_at: Time
    created_by: str
    expires_at: Time
    member_days: Annotated[int, Meta(description="How long they are a member from then on; 0: it does not end by itself.")]
    accepted_at: Time | None
    accepted_by: str
    revoked_at: Time | None


class NewInvitation(msgspec.Struct, kw_only=True):
    email: Annotated[Text, _EMAIL, Meta(description="Only an account with this address can accept.")]
    role: Annotated[Text, _ROLE, Meta(description="What they become: one of the roles of members.")] = "metadata"
    by_mail: Annotated[
        bool, Meta(description="true: the link is sent to the address; false, or where no mail is sent: the answer has it.")
    ] = True
    member_days: Annotated[
        int,
        Limit("days", minimum=0, maximum=MEMBER_DAYS_MAX),
        Meta(description="How long they are a member from then on; 0: it does not end by itself."),
    ] = 0


class InvitationWithLink(InvitationShape, kw_only=True):
    link: Annotated[str, Meta(description="Returned only once; empty where mail carries it.")]


class SignInRules(msgspec.Struct, kw_only=True):
    second_factor_required: Annotated[bool, Meta(description="Of people, for everything in the tenant. Keys are not asked.")]


class SessionShape(msgspec.Struct, kw_only=True):
    id: str
    address: str
    browser: str
    created_at: Time
    last_seen_at: Time
    current: bool
