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

HEAD = b"LUKASA-SEALED-1\n"
_SALT, _PIECE, _TAG = 16, 1 << 20, 16


def seal(pieces: Iterable[bytes], secret: str) -> Iterator[bytes]:
    """The pieces, encrypted."""
    salt = os.urandom(_SALT)
    cipher, head = _cipher(secret, salt), HEAD + salt
    yield head
    at, held = 0, b""
    for piece in pieces:
        held += piece
        while len(held) > _PIECE:
            yield _framed(cipher.encrypt(_nonce(at, last=False), held[:_PIECE], head))
            held, at = held[_PIECE:], at + 1
    yield _framed(cipher.encrypt(_nonce(at, last=True), held, head))


def unseal(pieces: Iterable[bytes], secret: str) -> Iterator[bytes]:
    """What was sealed. Raises ``FormatError`` when the secret is another one, or the archive was changed."""
    from cryptography.exceptions import InvalidTag

    source = _Source(iter(pieces))
    head = source.take(len(HEAD) + _SALT)
    if not head.startswith(HEAD):
        raise FormatError("The archive is not encrypted as its manifest says.")
    cipher = _cipher(secret, head[len(HEAD) :])
    at = 0
    while True:
        length = int.from_bytes(source.take(4), "big")
        if not _TAG <= length <= _PIECE + _TAG:
            raise FormatError("The archive is damaged or cut off.")
        piece = source.take(length)
        last = source.ended()
        try:
            yield cipher.decrypt(_nonce(at, last=last), piece, head)
        except InvalidTag as error:
            raise FormatError("The archive cannot be decrypted: another secret, or it was changed.") from error
        if last:
            return
        at += 1


def _cipher(secret: str, salt: bytes) -> Any:
    if not secret:
        raise InvalidInput("The archive is encrypted.", hint="Give the secret it was sealed with.")
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise MissingExtra("Encryption needs another package.", hint="Run: pip install 'lukasa[backup]'") from error
    return AESGCM(hashlib.scrypt(secret.encode(), salt=salt, n=2**15, r=8, p=1, maxmem=2**26, dklen=32))


def _nonce(at: int, *, last: bool) -> bytes:
    return at.to_bytes(11, "big") + (b"\1" if last else b"\0")


def _framed(piece: bytes) -> bytes:
    return len(piece).to_bytes(4, "big") + piece


class _Source:
    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._held = pieces, b""

    def take(self, size: int) -> bytes:
        while len(self._held) < size:
            piece = next(self._pieces, None)
            if piece is None:
                raise FormatError("The archive is damaged or cut off.")
            self._held += piece
        taken, self._held = self._held[:size], self._held[size:]
        return taken

    def ended(self) -> bool:
        while not self._held:
            piece = next(self._pieces, None)
            if piece is None:
                return True
            self._held = piece
        return False
