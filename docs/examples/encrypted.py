"""Payloads that the broker cannot read. Needs cryptography."""

from __future__ import annotations

import asyncio
import sys

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from messaging import client as magnetar


async def main(url: str, key: str | None = None, namespace: str = "public/default") -> tuple[str, bool]:
    pair = rsa.generate_private_key(65537, 2048)  # a program reads its keys from files
    public = pair.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    private = pair.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    topic = f"persistent://{namespace}/example-secret"
    async with (
        magnetar.connect(url, key=key) as client,
        client.producer(topic, encryption=magnetar.Encryptor({"2026": public})) as producer,
        client.consumer(topic, "trusted", decryption=magnetar.Decryptor({"2026": private})) as trusted,
        client.consumer(topic, "blind", crypto_failure="consume") as blind,
    ):
        await producer.send(b"the plan")
        read, sealed = await trusted.receive(timeout_s=10), await blind.receive(timeout_s=10)
        return read.payload.decode(), sealed.encryption is not None and b"plan" not in sealed.payload


if __name__ == "__main__":
    print(asyncio.run(main(*sys.argv[1:])))
