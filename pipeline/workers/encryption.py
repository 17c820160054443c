"""Who can reach a run's scheduler, workers and dashboard, and with which certificate."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from distributed import Security


class ExposedWarning(UserWarning):
    """Something that a run starts can be reached from other machines."""


@dataclass(frozen=True)
class Tls:
    """How connections within a cluster are encrypted, each side proving itself with a certificate.

    Args:
        ca_file: PEM file of the authority whose certificates are accepted; None, as are the others, makes temporary
            ones that nobody else has (where a cluster is started), or takes those of Dask's own configuration
            (``distributed.comm.tls``, where one is joined).
        cert: PEM file of the certificate.
        key: PEM file of its private key.
    """

    ca_file: str | None = None
    cert: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        given = [self.ca_file, self.cert, self.key]
        if any(given) and not all(given):
            raise ValueError("TLS takes --tls-ca-file, --tls-cert and --tls-key together, or none of them")
        for path in given:
            if path is not None and not Path(path).is_file():
                raise ValueError(f"{path} is no file: give the PEM file of a certificate or key")

    def security(self, *, starts_cluster: bool) -> Security:
        """What Dask is told.

        Raises:
            ValueError: Temporary certificates can't be made here.
        """
        if self.ca_file is None:
            if not starts_cluster:
                return Security(require_encryption=True)
            try:
                temporary: Security = Security.temporary()
                return temporary
            except ImportError as error:
                raise ValueError(
                    "temporary certificates need cryptography: pip install 'photonflow[tls]', or give your own with "
                    "--tls-ca-file, --tls-cert and --tls-key"
                ) from error
        roles = ("client", "scheduler", "worker")
        files = {f"tls_{role}_cert": self.cert for role in roles} | {f"tls_{role}_key": self.key for role in roles}
        return Security(require_encryption=True, tls_ca_file=self.ca_file, **files)


def exposures(host: str, dashboard_address: str | None, tls: bool) -> list[str]:
    """What can be reached from other machines, each in a sentence that says what that allows."""
    found = []
    if not tls and not is_loopback(host):
        found.append(
            f"scheduler and workers listen on {host or 'the network'} without TLS: whoever reaches them can run "
            "programs as you and read your data; give --tls, or leave host out"
        )
    if dashboard_address is not None:
        dashboard = dashboard_address.rpartition(":")[0]
        if not is_loopback(dashboard):
            found.append(
                f"the dashboard listens on {dashboard or 'all interfaces'}, without TLS or password: whoever reaches "
                "it sees paths, tasks and logs; give 127.0.0.1:PORT and use an SSH tunnel"
            )
    return found


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host of that name."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
