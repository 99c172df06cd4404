"""Encryption of archives: AES-256-GCM in chunks, with a key that scrypt derives from a secret.

    LUKASA-SEALED-1\\n , 16 bytes of salt , chunks of ( 4 bytes of length , ciphertext , 16 bytes of tag )

Every archive has a new salt and so a new key. The nonce of a chunk is its index and whether it is the last. So no chunk can
be changed, moved, removed or taken from another archive, and the end cannot be cut off, without detection.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

from lukasa.errors import FormatError, InvalidInput, MissingExtra

HEADER = b"LUKASA-SEALED-1\n"
_SALT_SIZE, _CHUNK_SIZE, _TAG_SIZE = 16, 1 << 20, 16


def encrypt(chunks: Iterable[bytes], secret: str) -> Iterator[bytes]:
    """Yield the encrypted archive."""
    salt = os.urandom(_SALT_SIZE)
    cipher, header = _create_cipher(secret, salt), HEADER + salt
    yield header
    index, buffer = 0, b""
    for chunk in chunks:
        buffer += chunk
        while len(buffer) > _CHUNK_SIZE:
            yield _add_length(cipher.encrypt(_build_nonce(index, last=False), buffer[:_CHUNK_SIZE], header))
            buffer, index = buffer[_CHUNK_SIZE:], index + 1
    yield _add_length(cipher.encrypt(_build_nonce(index, last=True), buffer, header))


def decrypt(chunks: Iterable[bytes], secret: str) -> Iterator[bytes]:
    """Yield the decrypted archive. Raises ``FormatError`` if the secret is wrong or the archive was changed."""
    from cryptography.exceptions import InvalidTag

    source = _ChunkReader(iter(chunks))
    header = source.read_exactly(len(HEADER) + _SALT_SIZE)
    if not header.startswith(HEADER):
        raise FormatError("The archive is not encrypted as its manifest says.")
    cipher = _create_cipher(secret, header[len(HEADER) :])
    index, last = 0, False
    while not last:
        length = int.from_bytes(source.read_exactly(4), "big")
        if not _TAG_SIZE <= length <= _CHUNK_SIZE + _TAG_SIZE:
            raise FormatError("The archive is damaged or cut off.")
        chunk = source.read_exactly(length)
        last = source.is_at_end()
        try:
            yield cipher.decrypt(_build_nonce(index, last=last), chunk, header)
        except InvalidTag as error:
            raise FormatError("The archive cannot be decrypted: the secret is wrong, or it was changed.") from error
        index += 1


def _create_cipher(secret: str, salt: bytes) -> Any:
    if not secret:
        raise InvalidInput("The archive is encrypted.", hint="Give the secret that it was encrypted with.")
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise MissingExtra("Encryption needs another package.", hint="Run: pip install 'lukasa[backup]'") from error
    return AESGCM(hashlib.scrypt(secret.encode(), salt=salt, n=2**15, r=8, p=1, maxmem=2**26, dklen=32))


def _build_nonce(index: int, *, last: bool) -> bytes:
    return index.to_bytes(11, "big") + (b"\1" if last else b"\0")


def _add_length(chunk: bytes) -> bytes:
    return len(chunk).to_bytes(4, "big") + chunk


class _ChunkReader:
    """Reads exact numbers of bytes from an iterator of chunks."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._buffer = chunks, b""

    def read_exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            chunk = next(self._chunks, None)
            if chunk is None:
                raise FormatError("The archive is damaged or cut off.")
            self._buffer += chunk
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def is_at_end(self) -> bool:
        self._buffer = self._buffer or next(filter(None, self._chunks), b"")
        return not self._buffer
