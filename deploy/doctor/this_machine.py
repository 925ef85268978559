"""Which addresses are this machine's own, who listens on them, and which files only this user can have put there."""
from __future__ import annotations

import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

LOOPBACK = ("127.", "::1", "::ffff:127.")


@dataclass(frozen=True)
class Listener:
    """A socket that waits for connections; `program` is None where another user's."""

    ip: str
    port: int
    pid: int | None = None
    program: str | None = None

    @property
    def is_local(self) -> bool:
        return self.ip.startswith(LOOPBACK)


def is_here(host: str) -> bool:
    """Whether an address is this machine's own."""
    import psutil

    try:
        ips = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    own = {address.address for addresses in psutil.net_if_addrs().values() for address in addresses}
    return all(ip.startswith(LOOPBACK) or ip in own for ip in ips)


def listeners(ports: tuple) -> tuple[Listener, ...]:
    """Who listens on these ports of this machine, on which addresses."""
    import psutil

    found = [each for each in psutil.net_connections("tcp")
             if each.status == psutil.CONN_LISTEN and each.laddr.port in ports]  # fmt: skip
    return tuple(Listener(each.laddr.ip, each.laddr.port, each.pid, _program(each.pid)) for each in found)


def _program(pid: int | None) -> str | None:
    import psutil

    try:
        return psutil.Process(pid).name() if pid else None
    except psutil.Error:
        return None


def is_trusted(path: str) -> bool:
    """Whether a file and all folders above it, links on the way included, are this user's or the administrator's."""
    lexical = Path(os.path.abspath(path))
    return all(map(_is_ours, {lexical, *lexical.parents, lexical.resolve(), *lexical.resolve().parents}))


def _is_ours(path: Path) -> bool:
    status = path.lstat()
    open_to_all = status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
    return status.st_uid in (0, os.geteuid()) and (not open_to_all or stat.S_ISLNK(status.st_mode))
