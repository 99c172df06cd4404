"""Archives: files packed into one, kept by a keeper of blobs, and proved by reading them back.

``packing`` makes one file of many and takes it apart again, ``sealing`` encrypts it, ``room`` keeps a numbered row of
archives under one name, each with a manifest that is written last: without a manifest there is no archive.
"""

from lukasa.archive.room import Archives, Manifest

__all__ = ["Archives", "Manifest"]
