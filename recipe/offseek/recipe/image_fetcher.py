"""Downloading one image, safe by default.

Only http and https; only public addresses, checked at the address that is connected to (the host is resolved once, and
the connection goes to an address that passed) and again after every redirect; limits on bytes, time and redirects. What
the reference package's fetcher does instead, connecting to any address, is `allow_private=True`.

HTTP itself is `httpcore`'s (the transport below httpx): one GET, HTTP/1.1, no proxy, no compression, no user agent.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from .errors import ImageError
from .images import MAX_IMAGE_BYTES, download_error

if TYPE_CHECKING:
    import httpx

DestinationFilter = Callable[[str, str], bool]

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


def is_public_address(address: str) -> bool:
    """Whether an IP address (text) is globally reachable, and so is any IPv4 address that it embeds (mapped, 6to4,
    NAT64, Teredo). Scoped and malformed addresses are not."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.scope_id is not None:
            return False
        embedded = [ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())]
        if ip in ipaddress.ip_network("64:ff9b::/96") or ip in ipaddress.ip_network("::/96"):
            embedded.append(ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF))
        inner = [v4 for v4 in embedded if v4 is not None]
        if inner:
            return all(v4.is_global and not v4.is_multicast for v4 in inner)
    return ip.is_global and not ip.is_multicast


class ImageFetcher:
    """Downloads images; may be shared between threads.

    max_bytes:      largest body, inclusive.
    timeout_s:      from the start of an attempt to its last byte, redirects and name resolution included.
    max_redirects:  how many are followed.
    allow_private:  connect to any address, as the reference package does.
    allowed_hosts:  host names (or addresses as spelled in a URL) whose addresses are not checked.
    destination_filter: called with (host, address) for each resolved address of the URL and of each redirect's target,
        instead of the check for public addresses; anything but True, and an exception, refuses the address.
    """

    def __init__(
        self,
        *,
        max_bytes: int = MAX_IMAGE_BYTES,
        timeout_s: float = 60.0,
        max_redirects: int = 5,
        allow_private: bool = False,
        allowed_hosts: Iterable[str] = (),
        destination_filter: DestinationFilter | None = None,
    ) -> None:
        if max_bytes < 0:
            raise OverflowError("max_bytes must not be negative")
        if timeout_s <= 0 or max_redirects < 0:
            raise ValueError("timeout_s must be positive and max_redirects not negative")
        if destination_filter is not None and not callable(destination_filter):
            raise TypeError("destination_filter must be callable")
        self.max_bytes = max_bytes
        self.timeout_s = timeout_s
        self.max_redirects = max_redirects
        self.allow_private = allow_private
        self.allowed_hosts = frozenset(host.lower() for host in allowed_hosts)
        self._filter = destination_filter

    @classmethod
    def with_max_bytes(cls, max_bytes: int) -> ImageFetcher:
        """A fetcher with this size limit and the other defaults."""
        return cls(max_bytes=max_bytes)

    def with_destination_filter(self, destination_filter: DestinationFilter) -> ImageFetcher:
        """A fetcher with these limits that connects where `destination_filter` says, and nowhere else.

        Raises TypeError when it is not callable.
        """
        if not callable(destination_filter):
            raise TypeError("destination_filter must be callable")
        return type(self)(
            max_bytes=self.max_bytes,
            timeout_s=self.timeout_s,
            max_redirects=self.max_redirects,
            destination_filter=destination_filter,
        )

    def fetch(self, url: str) -> bytes:
        """The body of a successful (2xx) answer. One attempt.

        Raises ImageError: `Fetch` (connection, name, timeout, too many redirects; retryable), `FetchStatus` (other
        answers; 5xx retryable), `DestinationRejected`, `ImageTooLarge`.
        """
        from . import image_connection as connection

        try:
            return self._fetch(url)
        except connection.RejectedError as error:
            raise _failed(url, "DestinationRejected", is_retryable=False) from error
        except (*connection.TRANSPORT_ERRORS, OSError, ValueError) as error:
            raise _failed(url, "Fetch", is_retryable=True) from error

    def may_connect(self, host: str, address: str) -> bool:
        """Whether this fetcher connects to `address` for `host`."""
        if self._filter is not None:
            try:
                return self._filter(host, address) is True
            except Exception:
                return False
        return self.allow_private or host.lower() in self.allowed_hosts or is_public_address(address)

    def _fetch(self, url: str) -> bytes:
        import httpx

        deadline = time.monotonic() + self.timeout_s
        target = _parse(url)
        for _ in range(self.max_redirects + 1):
            status, location, body = self._get(target, url, deadline)
            if status not in _REDIRECTS:
                break
            if location is None:
                raise _failed(url, "FetchStatus", is_retryable=False)
            try:
                target = target.join(location)
            except httpx.InvalidURL as error:
                raise _failed(url, "FetchStatus", is_retryable=False) from error
            if target.scheme not in ("http", "https") or not target.host:
                raise ValueError(f"redirect to {location!r}")
        else:
            raise ValueError("too many redirects")
        if not 200 <= status < 300:
            raise _failed(url, "FetchStatus", is_retryable=status >= 500)
        return body

    def _get(self, target: httpx.URL, url: str, deadline: float) -> tuple[int, str | None, bytes]:
        """Status, redirect target and body (empty unless 2xx) of one GET."""
        from .image_connection import open_get

        with open_get(target, may_connect=self.may_connect, deadline=deadline) as response:
            if response.status in _REDIRECTS:
                location = {name.lower(): value for name, value in response.headers}.get(b"location")
                return response.status, location.decode("latin-1") if location else None, b""
            if not 200 <= response.status < 300:
                return response.status, None, b""
            body = bytearray()
            for part in response.iter_stream():
                body += part
                if len(body) > self.max_bytes:
                    text = f"image file size exceeds limit {self.max_bytes >> 20} MB"
                    raise ImageError(f"image[0]: {text}", "ImageTooLarge")
            return response.status, None, bytes(body)


class ReqwestImageFetcher(ImageFetcher):
    """`ImageFetcher` under the reference package's name, and as safe: `allow_private=True` is its open behaviour."""


def _failed(url: str, kind: str, *, is_retryable: bool) -> ImageError:
    error = download_error(url, kind, is_retryable=is_retryable)
    return ImageError(f"image[0]: {error}", kind, is_retryable)


def _parse(url: str) -> httpx.URL:
    """Raises ValueError for what is not an http(s) URL with a host."""
    import httpx

    try:
        target = httpx.URL(url.strip())
    except httpx.InvalidURL as error:
        raise ValueError(str(error)) from error
    if target.scheme not in ("http", "https") or not target.host:
        raise ValueError(f"{url!r} is not an http(s) URL")
    return target
