"""Certificates of the platform's own processes, as files that settings name and a test replaces."""

from __future__ import annotations

import datetime
from pathlib import Path

import trustme

from messaging.atomic_files import replace_file
from messaging.identity.service import SERVICE_NAMES


class ProcessCertificates:
    """`settings`: those of every process. Each has a certificate of `authority` with its name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = trustme.CA()
        self.trust(self.authority)
        for name in SERVICE_NAMES:
            self.issue(name)

    @property
    def settings(self) -> dict[str, str]:
        return {
            "internal_tls_cert_file": str(self.folder / "{service}.pem"),
            "internal_tls_key_file": str(self.folder / "{service}.key"),
            "internal_tls_ca_file": str(self.folder / "authorities.pem"),
        }

    def trust(self, *authorities: trustme.CA) -> None:
        self._write("authorities.pem", b"".join(authority.cert_pem.bytes() for authority in authorities))

    def issue(
        self, name: str, common_name: str = "", authority: trustme.CA | None = None, ends: datetime.datetime | None = None
    ) -> None:
        """In one file with its key: whoever loads it in between has both of one pair."""
        begins = ends - datetime.timedelta(days=1) if ends is not None else None
        issued = (authority or self.authority).issue_cert(
            "process.example", common_name=common_name or name, not_before=begins, not_after=ends
        )
        self._write(f"{name}.key", issued.private_key_pem.bytes())
        self._write(f"{name}.pem", b"".join(part.bytes() for part in issued.cert_chain_pems))

    def _write(self, name: str, data: bytes) -> None:
        replace_file(self.folder / name, data, durable=False, mode=0o600)
