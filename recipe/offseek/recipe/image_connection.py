"""One HTTP GET over a connection to a checked address, for `image_fetcher`.

`httpcore` asks its network backend for every connection; the backend here resolves the host itself, connects only to
addresses that the caller allows, and ends every operation at the deadline. Imported with the first download only.
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import httpcore
import httpx

MayConnect = Callable[[str, str], bool]

TRANSPORT_ERRORS = (
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
)


class RejectedError(Exception):
    """No address of a host may be connected to."""


@contextlib.contextmanager
def open_get(target: httpx.URL, *, may_connect: MayConnect, deadline: float) -> Iterator[httpcore.Response]:
    """The answer to a GET of `target`, its body not read yet.

    may_connect: called with (host, address).
    deadline: on the clock of `time.monotonic`, for everything up to the last byte read.

    Raises RejectedError and TRANSPORT_ERRORS.
    """
    context = _ssl_context() if target.scheme == "https" else None
    url = httpcore.URL(scheme=target.raw_scheme, host=target.raw_host, port=target.port, target=target.raw_path or b"/")
    headers = [(b"Host", target.netloc), (b"accept", b"*/*"), (b"connection", b"close")]
    with (
        httpcore.ConnectionPool(ssl_context=context, network_backend=_Backend(may_connect, deadline)) as pool,
        pool.stream("GET", url, headers=headers) as response,
    ):
        yield response


@functools.cache
def _ssl_context() -> ssl.SSLContext:
    return httpx.create_ssl_context()


def _left(deadline: float, error: type[Exception]) -> float:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise error("time is up")
    return remaining


def resolve(host: str, port: int, deadline: float) -> list[str]:
    """Addresses of `host`, each once, in the resolver's order.

    The system's resolver cannot be interrupted, so it runs in a daemon thread that may outlive the call.

    Raises httpcore.ConnectTimeout at the deadline, httpcore.ConnectError for an unknown host.
    """
    with contextlib.suppress(ValueError):
        return [str(ipaddress.ip_address(host))]
    found: list[Any] = []

    def look_up() -> None:
        try:
            found.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            found.append(error)

    thread = threading.Thread(target=look_up, daemon=True, name="offseek-resolve")
    thread.start()
    thread.join(_left(deadline, httpcore.ConnectTimeout))
    if not found:
        raise httpcore.ConnectTimeout(f"resolving {host!r} timed out")
    if isinstance(found[0], Exception):
        raise httpcore.ConnectError(f"cannot resolve {host!r}") from found[0]
    return list(dict.fromkeys(str(entry[4][0]) for entry in found[0]))


class _Stream(httpcore.NetworkStream):
    """A connection whose every operation ends at the deadline, so that a slow drip does not outlast it."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(self._deadline, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(self._deadline, httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = _left(self._deadline, httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend(httpcore.NetworkBackend):
    """Connects to allowed addresses, and to nothing else."""

    def __init__(self, may_connect: MayConnect, deadline: float) -> None:
        self._may_connect = may_connect
        self._deadline = deadline
        self._tcp = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        host = host.strip("[]")
        addresses = resolve(host, port, self._deadline)
        allowed = [address for address in addresses if self._may_connect(host, address)]
        if not allowed:
            raise RejectedError(f"no address of {host!r} may be connected to: {', '.join(addresses)}")
        failure: Exception | None = None
        for address in allowed:
            left = _left(self._deadline, httpcore.ConnectTimeout)
            try:
                return _Stream(
                    self._tcp.connect_tcp(address, port, left, local_address, socket_options), self._deadline
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise httpcore.ConnectError(f"cannot connect to {host!r}") from failure
