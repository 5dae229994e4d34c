"""The self-signed certificate and the context that follows its files, with real handshakes."""

from __future__ import annotations

import datetime
import shutil
import socket
import ssl
import threading
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat, load_pem_private_key

from messaging import tls
from messaging.settings import ConfigError, Settings

NOW = datetime.datetime.now(datetime.UTC)


def _settings(folder: Path, **values: object) -> Settings:
    return Settings(data_dir=str(folder), tls="self-signed", **values)  # type: ignore[arg-type]


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> bytes:
    """DER of the certificate that the client saw and accepted. Both ends in memory-connected sockets."""
    left, right = socket.socketpair()
    with left, right:
        failures: list[Exception] = []

        def serve() -> None:
            try:
                with server.wrap_socket(left, server_side=True) as connection:
                    connection.recv(1)
            except (OSError, ssl.SSLError) as error:
                failures.append(error)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with client.wrap_socket(right, server_hostname=name) as connection:
                seen = connection.getpeercert(binary_form=True)
                connection.sendall(b"x")
        finally:
            right.close()
            thread.join(60)
        assert seen is not None
        return seen


@pytest.mark.parametrize("trusted", ["cert.pem", "ca.pem"])
@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "broker.example"])
def test_a_client_that_is_given_the_file_trusts_us(tmp_path: Path, trusted: str, name: str) -> None:
    context = tls.server_context(_settings(tmp_path, advertised_host="broker.example"))
    assert context is not None
    client = ssl.create_default_context(cafile=str(tmp_path / "tls" / trusted))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    _handshake(context, client, name)


def test_others_do_not(tmp_path: Path) -> None:
    context = tls.server_context(_settings(tmp_path))
    assert context is not None
    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(context, ssl.create_default_context(), "localhost")


def test_files_are_private_and_left_alone_while_they_serve(tmp_path: Path) -> None:
    files = tls.ensure_certificate(_settings(tmp_path))
    assert [path.stat().st_mode & 0o777 for path in files] == [0o600, 0o600]
    before = files.certificate.read_bytes()
    tls.ensure_certificate(_settings(tmp_path))
    assert files.certificate.read_bytes() == before
    tls.ensure_certificate(_settings(tmp_path), now=NOW + datetime.timedelta(days=350))
    assert files.certificate.read_bytes() != before, "renewed well before its end"


def test_a_new_name_makes_a_new_certificate(tmp_path: Path) -> None:
    before = tls.ensure_certificate(_settings(tmp_path)).certificate.read_bytes()
    assert tls.ensure_certificate(_settings(tmp_path, advertised_host="new.example")).certificate.read_bytes() != before


def test_a_certificate_that_is_no_certificate_is_made_anew(tmp_path: Path) -> None:
    files = tls.ensure_certificate(_settings(tmp_path))
    files.certificate.write_text("half a cer")
    tls.ensure_certificate(_settings(tmp_path))
    assert b"BEGIN CERTIFICATE" in files.certificate.read_bytes()


def test_new_files_are_used_from_the_next_handshake_on(tmp_path: Path) -> None:
    """A renewed certificate needs no restart; half a file changes nothing."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    authority = trustme.CA()

    def issue() -> None:
        issued = authority.issue_cert("localhost")
        issued.cert_chain_pems[0].write_to_path(str(certificate))
        issued.private_key_pem.write_to_path(str(key))

    issue()
    client = ssl.create_default_context()
    authority.configure_trust(client)
    settings = Settings(data_dir=str(tmp_path), tls="files", tls_cert_file=str(certificate), tls_key_file=str(key))
    context = tls.server_context(settings)
    assert context is not None
    first = _handshake(context, client, "localhost")
    assert _handshake(context, client, "localhost") == first
    whole = certificate.read_bytes()
    certificate.write_bytes(whole[: len(whole) // 2])
    assert _handshake(context, client, "localhost") == first
    issue()
    second = _handshake(context, client, "localhost")
    assert second != first
    assert _handshake(context, client, "localhost") == second


def test_off_is_no_context(tmp_path: Path) -> None:
    assert tls.server_context(Settings(data_dir=str(tmp_path))) is None


def test_a_key_of_another_certificate_is_an_error_that_says_so(tmp_path: Path) -> None:
    first = tls.ensure_certificate(_settings(tmp_path / "one"))
    other = tls.ensure_certificate(_settings(tmp_path / "other"))
    mixed = tmp_path / "key.pem"
    shutil.copy(other.key, mixed)
    settings = Settings(data_dir=str(tmp_path), tls="files", tls_cert_file=str(first.certificate), tls_key_file=str(mixed))
    with pytest.raises(ConfigError, match=r"cannot be used .*: set tls_cert_file and tls_key_file"):
        tls.server_context(settings)


def test_a_key_with_a_passphrase_is_refused_and_asked_for_nowhere(tmp_path: Path) -> None:
    """OpenSSL asked at the terminal, and the whole broker waited: at its start, and in a handshake after a renewal."""
    files = tls.ensure_certificate(_settings(tmp_path))
    key = load_pem_private_key(files.key.read_bytes(), None)
    secret = BestAvailableEncryption(b"secret")
    (tmp_path / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret))
    settings = Settings(
        data_dir=str(tmp_path), tls="files", tls_cert_file=str(files.certificate), tls_key_file=str(tmp_path / "key.pem")
    )
    with pytest.raises(ConfigError, match="encrypted with a passphrase: store it without one"):
        tls.server_context(settings)
