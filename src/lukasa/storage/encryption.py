"""Encrypting an archive: AES-256-GCM in pieces, under a key that scrypt makes of a secret.

    LUKASA-SEALED-1\\n , 16 bytes of salt , pieces of ( 4 bytes of length , piece , 16 bytes of tag )

The salt is new for every archive, so is the key; a piece's nonce is its place and whether it is the last. So no piece
can be changed, moved, left out or taken from another archive, and the end cannot be cut off, without being noticed.
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
    """The pieces, encrypted."""
    salt = os.urandom(_SALT_SIZE)
    cipher, head = _create_cipher(secret, salt), HEADER + salt
    yield head
    at, held = 0, b""
    for piece in chunks:
        held += piece
        while len(held) > _CHUNK_SIZE:
            yield _add_length(cipher.encrypt(_build_nonce(at, last=False), held[:_CHUNK_SIZE], head))
            held, at = held[_CHUNK_SIZE:], at + 1
    yield _add_length(cipher.encrypt(_build_nonce(at, last=True), held, head))


def decrypt(chunks: Iterable[bytes], secret: str) -> Iterator[bytes]:
    """What was sealed. Raises ``FormatError`` when the secret is another one, or the archive was changed."""
    from cryptography.exceptions import InvalidTag

    source = _ChunkReader(iter(chunks))
    head = source.read_exactly(len(HEADER) + _SALT_SIZE)
    if not head.startswith(HEADER):
        raise FormatError("The archive is not encrypted as its manifest says.")
    cipher = _create_cipher(secret, head[len(HEADER) :])
    at = 0
    while True:
        length = int.from_bytes(source.read_exactly(4), "big")
        if not _TAG_SIZE <= length <= _CHUNK_SIZE + _TAG_SIZE:
            raise FormatError("The archive is damaged or cut off.")
        piece = source.read_exactly(length)
        last = source.is_at_end()
        try:
            yield cipher.decrypt(_build_nonce(at, last=last), piece, head)
        except InvalidTag as error:
            raise FormatError("The archive cannot be decrypted: another secret, or it was changed.") from error
        if last:
            return
        at += 1


def _create_cipher(secret: str, salt: bytes) -> Any:
    if not secret:
        raise InvalidInput("The archive is encrypted.", hint="Give the secret it was sealed with.")
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
    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._buffer = chunks, b""

    def read_exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            piece = next(self._chunks, None)
            if piece is None:
                raise FormatError("The archive is damaged or cut off.")
            self._buffer += piece
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def is_at_end(self) -> bool:
        while not self._buffer:
            piece = next(self._chunks, None)
            if piece is None:
                return True
            self._buffer = piece
        return False
