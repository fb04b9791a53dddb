"""The address that the service listens on: opened with a clear error, closed without losing a client."""

import asyncio
import ctypes
import errno
import select
import socket
import struct
import sys
import time
from collections.abc import Sequence
from typing import Any

from .errors import EXIT_CONFIGURATION

# Time for handshakes that have begun to end.
HANDSHAKE_SECONDS = 0.2
# A queue that does not get shorter: the process may have no more files.
EMPTY_SECONDS = 1.0
_NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_SO_ATTACH_FILTER = 26  # the kernel's include/uapi/asm-generic/socket.h; Python has no name for it
# A program for the kernel (linux/filter.h): load byte 13 of the TCP header, the flags; of SYN and ACK take both;
# where SYN stands alone, drop the packet; take any other.
_NO_NEW_HANDSHAKES = (
    (0x30, 0, 0, 13),
    (0x54, 0, 0, 0x12),
    (0x15, 0, 1, 0x02),
    (0x06, 0, 0, 0),
    (0x06, 0, 0, 0xFFFFFFFF),
)


class CannotListen(Exception):
    """The address cannot be used; ``exit_code`` says whether another start may help."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def listen(host: str, port: int) -> list[socket.socket]:
    """Return sockets that are bound to all addresses of ``host``. Raises CannotListen, which names the setting."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        way_out = "take 0.0.0.0, ::, or a name or an address of this machine"
        raise CannotListen(f"LISTEN_HOST={host} cannot be resolved ({error}): {way_out}", EXIT_CONFIGURATION) from None
    listeners, missing = [], None
    for family, address in dict.fromkeys((row[0], row[4]) for row in found):
        try:
            listeners.append(_bound(family, address))
        except OSError as error:
            if error.errno not in _NO_SUCH_ADDRESS:
                way_out = "take another one with PORT, or stop what listens there"
                raise CannotListen(f"port {port} cannot be used: {way_out} ({_reason(error)})", 1) from None
            missing = error
    if missing and not listeners:  # a name may have an IPv6 address where there is no IPv6
        way_out = "take 0.0.0.0, ::, or an address of this machine"
        raise CannotListen(f"LISTEN_HOST={host} cannot be used ({_reason(missing)}): {way_out}", EXIT_CONFIGURATION)
    return listeners


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _bound(family: int, address: Any) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # :: is every address, of IPv4 too, as in most servers: a cluster may have both.
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address[0] != "::")
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


async def drain(listeners: Sequence[socket.socket]) -> None:
    """Return when every client that the kernel has accepted is accepted here too; then they can be closed.

    A listener that is closed resets the clients which wait in its queue, and so would lose requests. New clients
    are kept out meanwhile; they are refused as soon as the listener is closed.
    """
    for listener in listeners:
        _refuse_new(listener)
    await asyncio.sleep(HANDSHAKE_SECONDS)
    poll = select.poll()
    for listener in listeners:
        poll.register(listener.fileno(), select.POLLIN)
    end = time.monotonic() + EMPTY_SECONDS
    while poll.poll(0) and time.monotonic() < end:
        await asyncio.sleep(0)


def _refuse_new(listener: socket.socket) -> None:
    if sys.platform != "linux":
        return
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in _NO_NEW_HANDSHAKES))
    about = struct.pack("HL", len(_NO_NEW_HANDSHAKES), ctypes.addressof(program))
    try:
        listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, about)
    except OSError:  # a sandbox without filters: a client may come between the last look and the end
        return
