"""A client of the coordinator's HTTP API (docs/coordinator.md)."""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import ssl
import urllib.parse
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

JSON = dict[str, Any]

MAX_ANSWER = 512 << 20  # bytes
MAX_WAIT = 60.0  # seconds that a query may wait
ATTEMPTS = 5  # of one request, over all nodes


class CoordinatorError(Exception):
    """The coordinator's refusal. `code` is such as "not_found"; /v1/openapi.json describes the API."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Coordinator:
    """Speaks to the coordinator at one or more URLs.

    >>> coordinator = Coordinator("http://127.0.0.1:7070")
    >>> coordinator.submit({"name": "swimmer", "tasks": ["Swimmer-v5"], "estimators": ["mc", "uapg"], "seeds": [1, 2]})
    4
    >>> for run in coordinator.watch("swimmer"):
    ...     print(run["name"], run["state"], run["iteration"])

    For https, credentials is the directory of this client's certificate and key (docs/security.md); or token is a token and ca the
    file of the authority's certificate. A server without a coordinator's certificate of that authority is sent nothing. Answers are
    as in the API, dictionaries.
    """

    def __init__(
        self,
        urls: str | Sequence[str],
        credentials: str | os.PathLike[str] | None = None,
        timeout: float = 15.0,
        token: str = "",
        ca: str | os.PathLike[str] | None = None,
    ) -> None:
        self.urls = [url.rstrip("/") for url in ([*urls.split(",")] if isinstance(urls, str) else urls)]
        for url in self.urls:
            scheme, _, _ = _parts(url)
            if token and scheme != "https":
                raise ValueError(f"a token would cross the network in the open to {url}: use https")
        if token and ca is None and credentials is None:
            raise ValueError("with a token, give ca too, the authority's ca.pem, so that nobody else gets the token")
        self.timeout = timeout
        self.token = token
        self.tls: ssl.SSLContext | None = None
        if credentials is not None or ca is not None:
            place = pathlib.Path(credentials or "")
            self.tls = ssl.create_default_context(cafile=str(ca or place / "ca.pem"))
            self.tls.minimum_version = ssl.TLSVersion.TLSv1_3
        if self.tls is not None and credentials is not None:
            self.tls.load_cert_chain(str(place / "tls.pem"), str(place / "tls-key.pem"))

    def experiments(self) -> list[JSON]:
        """Returns all experiments, each with the number of its runs in each state."""
        return list(self._get("/v1/experiments")["experiments"])

    def runs(self, experiment: str = "", state: str = "") -> list[JSON]:
        """Returns the runs of an experiment, or all, in one state, or in any."""
        return list(self._query("/v1/runs", {"experiment": experiment, "state": state})["runs"])

    def run(self, name: str) -> JSON:
        """Returns one run by its name."""
        return self._get("/v1/runs/" + urllib.parse.quote(name, safe=""))

    def watch(self, experiment: str = "") -> Iterator[JSON]:
        """Yields each run as it is and whenever it changes, until all have ended."""
        states: dict[str, str] = {}
        index = 0
        while True:
            answer = self._query("/v1/runs", {"experiment": experiment, "after": index or "", "wait": 30 if index else ""}, 30)
            index = answer["index"]
            for run in answer["runs"] or []:
                states[run["name"]] = run["state"]
                yield run
            if states and not set(states.values()) & {"queued", "running", "paused"}:
                return

    def nodes(self) -> list[JSON]:
        """Returns the coordinator's nodes."""
        return list(self._get("/v1/nodes")["nodes"])

    def seen(self) -> list[JSON]:
        """Returns the learners heard of recently; `silent` are those that should have been heard of since."""
        return list(self._get("/v1/seen")["seen"])

    def submit(self, spec: JSON) -> int:
        """Submits an experiment and returns how many runs it has.

        spec has a name, tasks, and what differs from the defaults of algorithms (the preset's), estimators (["uapg"]), seeds
        ([1]) and overrides, [{"name": "iterations", "values": ["300"]}].
        """
        return _count(self.command("submit", {"spec": spec}))

    def cancel(self, name: str) -> int:
        """Cancels a run, or all of an experiment's that have not ended. Returns how many."""
        return self._steer(name, "cancel")

    def retry(self, name: str) -> int:
        """Queues a run again that failed or was cancelled, or an experiment's. Returns how many."""
        return self._steer(name, "retry")

    def pause(self, name: str) -> int:
        """Keeps a run from workers until it is resumed, or an experiment's. Returns how many."""
        return self._steer(name, "pause")

    def resume(self, name: str) -> int:
        """Queues a paused run again, or an experiment's. Returns how many."""
        return self._steer(name, "resume")

    def extend(self, name: str, iterations: int = 0, *, steps: int = 0) -> int:
        """Sets how many iterations, or environment steps, a run has in all, or an experiment's. Returns how many."""
        return self._steer(name, "extend", **({"steps": steps} if steps else {"iterations": iterations}))

    def remove(self, experiment: str) -> int:
        """Forgets an experiment whose runs have ended. Returns how many they were."""
        return int(self.command("remove", {"experiment": experiment}).get("runs", 0))

    def command(self, operation: str, arguments: JSON) -> JSON:
        """Executes a command once, however often it has to be sent."""
        return self._send("POST", "/v1/commands", json.dumps({operation: arguments}).encode(), 0)

    def _steer(self, name: str, action: str, **arguments: int) -> int:
        return _count(self.command("steer", {"name": name, "action": action, **arguments}))

    def _query(self, path: str, parameters: JSON, wait: float = 0) -> JSON:
        given = {name: value for name, value in parameters.items() if value != ""}
        return self._get(path + "?" + urllib.parse.urlencode(given), wait)

    def _get(self, path: str, wait: float = 0) -> JSON:
        return self._send("GET", path, None, wait)

    def _send(self, method: str, path: str, body: bytes | None, wait: float) -> JSON:
        """Asks one node after the other."""
        failure = CoordinatorError("unavailable", "")
        headers = {"User-Agent": "dbqpg-python"}
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        if body:  # the same for each attempt
            headers |= {"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())}
        for attempt in range(ATTEMPTS):
            url = self.urls[attempt % len(self.urls)]
            try:
                answer = self._ask(url, method, path, body, headers, wait)
            except (OSError, http.client.HTTPException) as error:
                failure = CoordinatorError("unavailable", f"{url}: {error or type(error).__name__}")
                continue
            refused = answer.get("error")
            if not isinstance(refused, dict):
                return answer
            failure = CoordinatorError(str(refused.get("code")), str(refused.get("message")))
            if failure.code != "unavailable":
                raise failure
        raise failure

    def _ask(self, url: str, method: str, path: str, body: bytes | None, headers: dict[str, str], wait: float) -> JSON:
        """Makes one request to one node."""
        scheme, host, port = _parts(url)
        timeout = self.timeout + wait
        connection: http.client.HTTPConnection
        if scheme == "https":
            connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=self.tls)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=timeout)
        try:
            connection.connect()
            if isinstance(connection.sock, ssl.SSLSocket) and self.tls is not None:
                _check_coordinator(connection.sock)
            connection.request(method, path, body, headers)
            with connection.getresponse() as response:
                data = response.read(MAX_ANSWER + 1)
        finally:
            connection.close()
        if len(data) > MAX_ANSWER:
            raise CoordinatorError("too_large", f"{url}: an answer of more than {MAX_ANSWER} bytes")
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise CoordinatorError("malformed", f"{url}: no coordinator: {response.status} {data[:80]!r}")
        return answer


def _count(answer: JSON) -> int:
    """Returns how many runs a command was about: it answers with the run itself if it names one."""
    return 1 if "run" in answer else int(answer.get("runs", 0))


def _check_coordinator(socket: ssl.SSLSocket) -> None:
    """Raises an error unless the certificate, which has been verified, is a coordinator's."""
    certificate: dict[str, Any] = dict(socket.getpeercert() or {})
    names: Sequence[tuple[str, str]] = certificate.get("subjectAltName", ())
    if not any(kind == "URI" and name.startswith("spiffe://dbqpg/coordinator/") for kind, name in names):
        raise ssl.CertificateError(f"the server's certificate is not a coordinator's: {names}")


def _parts(url: str) -> tuple[str, str, int | None]:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is no URL such as http://127.0.0.1:7070")
    return parts.scheme, parts.hostname, parts.port
