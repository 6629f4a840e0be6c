"""`ImageFetcher`: what it connects to, and where it stops."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from offseek.recipe.errors import ImageError
from offseek.recipe.image_fetcher import ImageFetcher, ReqwestImageFetcher, is_public_address

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"


class Server:
    """Answers each connection with what `answer(target)` gives: bytes, or (bytes, pause in s) parts."""

    def __init__(self, answer: Callable[[str], list[tuple[bytes, float]]]) -> None:
        self.requests: list[bytes] = []
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/x"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        with connection:
            request = connection.recv(65536)
            if not request:
                return
            self.requests.append(request)
            try:
                for part, pause_s in self._answer(request.split(b" ")[1].decode()):
                    connection.sendall(part)
                    time.sleep(pause_s)
            except OSError:
                return


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    servers = []

    def start(answer: Callable[[str], list[tuple[bytes, float]]] | bytes) -> Server:
        fixed = answer if isinstance(answer, bytes) else b""
        servers.append(Server((lambda _: [(fixed, 0.0)]) if isinstance(answer, bytes) else answer))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def kind_of(fetcher: ImageFetcher, url: str) -> tuple[str, bool]:
    with pytest.raises(ImageError) as caught:
        fetcher.fetch(url)
    return caught.value.kind, caught.value.is_retryable


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
     "255.255.255.255", "192.0.2.1", "198.18.0.1", "240.0.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1",
     "fd12::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "2002:7f00:1::", "64:ff9b::7f00:1",
     "::127.0.0.1", "2001:db8::1", "not an address", ""],
)  # fmt: skip
def test_private_and_special_addresses_are_not_public(address: str) -> None:
    assert not is_public_address(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700::1111", "64:ff9b::808:808"])
def test_global_addresses_are_public(address: str) -> None:
    assert is_public_address(address)


def test_private_hosts_are_refused_by_default_before_any_request(serve: Callable[..., Server]) -> None:
    server = serve(OK)
    for fetcher in (ImageFetcher(), ReqwestImageFetcher(), ImageFetcher.with_max_bytes(10)):
        assert kind_of(fetcher, server.url) == ("DestinationRejected", False)
        assert kind_of(fetcher, f"http://localhost:{server.port}/") == ("DestinationRejected", False)
        assert kind_of(fetcher, f"http://[::1]:{server.port}/") == ("DestinationRejected", False)
        assert kind_of(fetcher, f"http://2130706433:{server.port}/")[0] in ("DestinationRejected", "Fetch")
    assert server.requests == []
    assert ImageFetcher(allow_private=True).fetch(server.url) == b"hello"
    assert ImageFetcher(allowed_hosts=["LOCALHOST"]).fetch(f"http://localhost:{server.port}/") == b"hello"
    assert kind_of(ImageFetcher(allowed_hosts=["localhost"]), server.url) == ("DestinationRejected", False)


def test_redirect_into_a_private_network_is_refused(serve: Callable[..., Server]) -> None:
    inner = serve(OK)
    outer = serve(f"HTTP/1.1 302 x\r\nlocation: http://localhost:{inner.port}/\r\ncontent-length: 0\r\n\r\n".encode())
    assert kind_of(ImageFetcher(allowed_hosts=["127.0.0.1"]), outer.url) == ("DestinationRejected", False)
    assert inner.requests == []


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://127.0.0.1/", "gopher://x", "data:image/png,x"])
def test_redirect_to_another_scheme_is_not_followed(serve: Callable[..., Server], location: str) -> None:
    server = serve(f"HTTP/1.1 302 x\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n".encode())
    assert kind_of(ImageFetcher(allow_private=True), server.url) == ("Fetch", True)
    assert len(server.requests) == 1


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, Iterator[list[str]]]:
    """Host names with, for each look-up in turn, the addresses that it gives."""
    known: dict[str, Iterator[list[str]]] = {}
    real = socket.getaddrinfo

    def look_up(host: str, port: int, *args: int, **kwargs: int) -> list[tuple[object, ...]]:
        if host not in known:
            return [*real(host, port, *args, **kwargs)]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in next(known[host])]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return known


def test_connection_goes_to_the_address_that_was_checked(
    serve: Callable[..., Server], names: dict[str, Iterator[list[str]]]
) -> None:
    """A name that gives one address when it is checked and another one later (DNS rebinding) is looked up once."""
    server = serve(OK)
    names["rebinding.example"] = iter([["127.0.0.1"], ["10.0.0.1"]])
    seen: list[tuple[str, str]] = []

    def check(host: str, address: str) -> bool:
        seen.append((host, address))
        return True

    fetcher = ImageFetcher(destination_filter=check)
    assert fetcher.fetch(f"http://rebinding.example:{server.port}/") == b"hello"
    assert seen == [("rebinding.example", "127.0.0.1")]
    assert next(names["rebinding.example"]) == ["10.0.0.1"]


def test_only_the_addresses_that_the_filter_allows_are_tried(
    serve: Callable[..., Server], names: dict[str, Iterator[list[str]]]
) -> None:
    server = serve(OK)
    names["two.example"] = iter([["10.0.0.1", "127.0.0.1"]])
    fetcher = ImageFetcher().with_destination_filter(lambda host, address: address == "127.0.0.1")
    assert fetcher.fetch(f"http://two.example:{server.port}/") == b"hello"


def test_public_name_with_a_private_address_is_refused(names: dict[str, Iterator[list[str]]]) -> None:
    names["inside.example"] = iter([["127.0.0.1", "::1"]])
    assert kind_of(ImageFetcher(), "http://inside.example/") == ("DestinationRejected", False)


@pytest.mark.parametrize("answer", [False, None, 1, "yes", RuntimeError("no")])
def test_filter_that_does_not_say_true_refuses(serve: Callable[..., Server], answer: object) -> None:
    server = serve(OK)

    def check(host: str, address: str) -> bool:
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]

    fetcher = ImageFetcher(allow_private=True).with_destination_filter(check)
    assert kind_of(fetcher, server.url) == ("DestinationRejected", False)
    with pytest.raises(TypeError, match="callable"):
        fetcher.with_destination_filter(3)  # type: ignore[arg-type]


def test_body_over_the_limit_stops_the_download(serve: Callable[..., Server]) -> None:
    sent = []

    def endless(_: str) -> list[tuple[bytes, float]]:
        def parts() -> Iterator[tuple[bytes, float]]:
            yield b"HTTP/1.1 200 OK\r\n\r\n", 0.0
            for _ in range(10_000):
                sent.append(65536)
                yield bytes(65536), 0.0

        return parts()  # type: ignore[return-value]

    server = serve(endless)
    fetcher = ImageFetcher(max_bytes=1 << 20, allow_private=True)
    with pytest.raises(ImageError, match="exceeds limit 1 MB") as caught:
        fetcher.fetch(server.url)
    assert (caught.value.kind, caught.value.is_retryable) == ("ImageTooLarge", False)
    assert sum(sent) < 100 << 20


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"])
def test_slow_drip_ends_at_the_deadline(serve: Callable[..., Server], head: bytes) -> None:
    """One byte at a time never makes a read wait long, in the status line, the headers or the body."""
    drip = b"HTTP/1.1 200 OK\r\nx-a: " if not head else b"x" * 1000
    server = serve(lambda _: [(head, 0.0), *((drip[i : i + 1], 0.05) for i in range(len(drip)))])
    started = time.monotonic()
    assert kind_of(ImageFetcher(allow_private=True, timeout_s=0.4), server.url) == ("Fetch", True)
    assert time.monotonic() - started < 10


def test_request_is_plain_and_carries_no_identity(serve: Callable[..., Server]) -> None:
    server = serve(OK)
    ImageFetcher(allow_private=True).fetch(server.url + "?a=1#fragment")
    head = server.requests[0].lower()
    assert head.startswith(b"get /x?a=1 http/1.1\r\n")
    assert f"host: 127.0.0.1:{server.port}\r\n".encode() in head
    assert b"accept: */*\r\n" in head
    for absent in (b"user-agent", b"accept-encoding", b"cookie", b"referer"):
        assert absent not in head


@pytest.mark.parametrize(
    "url", ["ftp://x/", "x", "", "http://", "http:///x", "http://[", "http://a b/", "javascript:1"]
)
def test_other_urls_fail_without_network_use(url: str) -> None:
    assert kind_of(ImageFetcher(), url) == ("Fetch", True)


def test_settings_out_of_their_domain_raise() -> None:
    with pytest.raises(OverflowError):
        ImageFetcher.with_max_bytes(-1)
    with pytest.raises(ValueError, match="timeout_s"):
        ImageFetcher(timeout_s=0)
