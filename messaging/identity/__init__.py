"""Authentication: tokens of keys, and the service identities of our own processes.

- `files`: the files in secrets/, and valid key files
- `first_start`: the secrets of a new data directory
- `tokens`: a *token* is a JWT whose subject is a role; a `TokenVerifier` turns it into a `Principal`
- `certificates`: who a peer is by the certificate that it presented, or which of our processes
- `signing_keys`: the keys that sign and verify tokens, and their rotation
- `audit_statements`: signed statements about the audit log
- `service`: a *service token* identifies one of our processes
- `service_keys`: the keys of service tokens, and their rotation
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
