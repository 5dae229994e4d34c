"""Who a request comes from: tokens of people's keys, and the service identities of our own processes.

- `files`: the files below secrets/, and what a key file may hold
- `first_start`: the secrets that a new data directory needs
- `tokens`: a *token* is a JWT whose subject is a role; a `TokenVerifier` turns it into a `Principal`
- `signing_keys`: the keys that sign and verify tokens, and changing them
- `service`: a *service token* says which of our processes calls
"""

from messaging.identity.files import read_secret, secrets_path
from messaging.identity.first_start import SUPERUSER_KEY_ID, create_secrets
from messaging.identity.service import ServiceVerifier, make_service_token, service_token
from messaging.identity.tokens import TokenVerifier, issue_token

__all__ = [
    "SUPERUSER_KEY_ID",
    "ServiceVerifier",
    "TokenVerifier",
    "create_secrets",
    "issue_token",
    "make_service_token",
    "read_secret",
    "secrets_path",
    "service_token",
]
