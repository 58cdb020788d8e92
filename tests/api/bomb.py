"""Run as a program by test_limits.py: pushes a gzip bomb at the real endpoint and prints by how
many KiB memory grew.
"""

import os
import resource
import struct
import sys
import zlib

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "labcarbon.settings")


def bomb(unpacked: int) -> bytes:
    """Return a gzip stream of ``unpacked`` zeros: one packed block of them, again and again."""
    zeros = bytes(8 << 20)
    packer = zlib.compressobj(9, wbits=-15)
    block = packer.compress(zeros) + packer.flush(
        zlib.Z_FULL_FLUSH
    )  # what follows refers to nothing before it
    count, checksum = unpacked // len(zeros), 0
    for _ in range(count):
        checksum = zlib.crc32(zeros, checksum)
    head = b"\x1f\x8b\x08\0\0\0\0\0\x02\xff"
    return (
        head
        + block * count
        + zlib.compressobj(wbits=-15).flush()
        + struct.pack("<II", checksum, count * len(zeros))
    )


def main(unpacked: int) -> None:
    """Push one small batch to warm up, then the bomb."""
    django.setup()
    from django.test import Client

    from apps.accounts.services.labs import issue_node_token
    from tests.api.conftest import Caller
    from tests.builders import T0, W, batch_body, small_lab

    small = small_lab()
    node = Caller(
        issue_node_token(lab=small.lab, node_uuid=small.node.uuid, now=T0),
        Client(headers={"Host": "127.0.0.1"}),
    )
    assert (
        node("POST", "ingest/", batch_body(small.node, [W("gpu:GPU-1234", 5)])).status_code == 200
    )
    packed = bomb(unpacked)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reply = node("POST", "ingest/", packed, **{"Content-Encoding": "gzip"})
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(reply.status_code, len(packed), after - before)


if __name__ == "__main__":
    main(int(sys.argv[1]))
