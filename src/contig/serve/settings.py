"""Settings of the HTTP service: where it listens, its limits, and its token."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from contig.errors import ConfigError
from contig.options import option

TOKEN_VARIABLE = "CONTIG_TOKEN"
SHORTEST_TOKEN = 16  # characters; a shorter one can be guessed


@dataclass(frozen=True)
class ServeSettings:
    """Where the service listens, and what it accepts."""

    host: str = option("127.0.0.1", "address to listen on; others than loopback need a token")
    port: int = option(8000, "port to listen on; 0 picks a free one", low=0, below=65536)
    max_body: int = option(8 * 2**20, "largest request body, in bytes", low=1)
    max_batch: int = option(10_000, "most events or pairs in a request", low=1)
    max_steps: int = option(1_000, "most points of a trajectory", low=2)
    max_k: int = option(1_000, "most recommendations, events or nodes in an answer", low=1)
    concurrency: int = option(64, "requests in progress at once; more get status 503", low=1)
    readers: int = option(2, "threads that compute answers", low=1)
    writers: int = option(4, "threads that store events; concurrent batches share a disk sync", low=1)
    body_seconds: float = option(
        30.0,
        "time to receive the headers of a request, its body, and for a client to read the answer",
        above=0,
    )
    stop_seconds: float = option(30.0, "time that open requests get to finish when the service stops", low=0)


def read_token(file: Path | None) -> str | None:
    """Return the token in a file or in the environment variable CONTIG_TOKEN, None if there is neither."""
    if file is None:
        token, source = os.environ.get(TOKEN_VARIABLE), TOKEN_VARIABLE
    else:
        token, source = _from_file(file), f"--token-file {file}"
    if token is None:
        return None
    if len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable() and " " not in token):
        raise ConfigError(
            f"{source}: a token has at least {SHORTEST_TOKEN} printable ASCII characters without blanks, "
            "such as the output of: openssl rand -hex 32"
        )
    return token


def _from_file(file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--token-file {file}: cannot be read ({error}).") from None


def check_address(host: str, token: str | None) -> None:
    """Reject an address that other machines can reach unless there is a token."""
    if not token and not is_loopback(host):
        raise ConfigError(
            f"--host {host}: other machines can reach this address, so a token is required. Put one into "
            f"{TOKEN_VARIABLE} or a file (--token-file), or use 127.0.0.1."
        )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address or name."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
