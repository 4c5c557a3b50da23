"""The client against a real coordinator."""

import http.server
import pathlib
import re
import signal
import ssl
import subprocess
import threading
from collections.abc import Iterator

import pytest
from conftest import PROGRAMS, Run

from dbqpg import Coordinator, CoordinatorError

SPEC = {"name": "small", "tasks": ["Swimmer-v2"], "seeds": [1, 2], "overrides": [{"name": "iterations", "values": ["5"]}]}


def serve(directory: pathlib.Path, *arguments: object) -> Iterator[str]:
    """Yields the URL of a coordinator that is ready."""
    command = [PROGRAMS / "coordinator", "serve", "--data-dir", directory, "--http", "127.0.0.1:0", "--raft", "127.0.0.1:0"]
    with subprocess.Popen([*map(str, command), *map(str, arguments)], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr
            url, log = "", []
            for line in process.stderr:
                log.append(line)
                if found := re.search(r"msg=serving .*url=(\S+)", line):
                    url = found[1]
                if "msg=ready" in line:
                    break
            assert url, "the coordinator did not start:\n" + "".join(log)
            threading.Thread(target=process.stderr.read, daemon=True).start()  # so that it never waits for its log
            yield url
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from serve(tmp_path_factory.mktemp("coordinator"))


def test_an_experiment(url: str) -> None:
    coordinator = Coordinator(url)
    assert coordinator.submit(SPEC) == 2
    (experiment,) = coordinator.experiments()
    assert experiment["spec"]["name"] == "small" and experiment["runs"] == {"queued": 2}
    names = [run["name"] for run in coordinator.runs("small", state="queued")]
    assert names == ["small/Swimmer-v2/npg-uapg-s1", "small/Swimmer-v2/npg-uapg-s2"]
    assert coordinator.run(names[0])["state"] == "queued"
    watching = coordinator.watch("small")
    assert [next(watching)["state"], next(watching)["state"]] == ["queued", "queued"]
    assert coordinator.pause("small") == 2 and coordinator.resume("small") == 2 and coordinator.extend(names[0], 7) == 1
    assert [next(watching)["name"], next(watching)["name"]] == names
    assert coordinator.cancel("small") == 2
    assert [run["state"] for run in watching] == ["cancelled", "cancelled"]
    assert coordinator.retry(names[1]) == 1
    assert coordinator.cancel(names[1]) == 1
    assert coordinator.remove("small") == 2
    assert coordinator.runs() == [] and coordinator.experiments() == []
    (node,) = coordinator.nodes()
    assert node["leader"] and node["url"] == url
    assert coordinator.seen() == []


def test_refusals(url: str) -> None:
    coordinator = Coordinator(url)
    with pytest.raises(CoordinatorError, match="no run called") as refusal:
        coordinator.run("nobody/knows it?")
    assert refusal.value.code == "not_found"
    with pytest.raises(CoordinatorError, match="Swimmer-v2") as refusal:
        coordinator.submit({"name": "bad", "tasks": ["Swimer-v2"]})
    assert refusal.value.code == "invalid"
    with pytest.raises(CoordinatorError) as refusal:
        coordinator.command("dance", {})
    assert refusal.value.code == "malformed"


def test_a_node_that_is_away_is_passed_over(url: str) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        away = f"http://127.0.0.1:{server.server_port}"  # it is bound, and nobody answers
        coordinator = Coordinator([away, url], timeout=0.2)
        assert coordinator.nodes()
        with pytest.raises(CoordinatorError) as refusal:
            Coordinator(away, timeout=0.05).nodes()
        assert refusal.value.code == "unavailable" and away in str(refusal.value)


def answering(status: int, body: bytes) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@pytest.mark.parametrize(("body", "code"), [(b"", "malformed"), (b"[]", "malformed"), (b"[" * 100_000, "malformed")])
def test_answers_of_others(body: bytes, code: str) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), answering(200, body)) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with pytest.raises(CoordinatorError) as refusal:
            Coordinator(f"http://127.0.0.1:{server.server_port}").nodes()
        assert refusal.value.code == code
        server.shutdown()


def test_other_nodes(url: str) -> None:
    """A node that knows no leader is not the last to be asked."""
    body = b'{"error":{"code":"unavailable","message":"ask another"}}'
    with http.server.HTTPServer(("127.0.0.1", 0), answering(503, body)) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        follower = f"http://127.0.0.1:{server.server_port}"
        assert Coordinator([follower, url]).nodes()
        with pytest.raises(CoordinatorError, match="ask another"):
            Coordinator(follower).nodes()
        server.shutdown()


def test_credentials(program: Run, tmp_path: pathlib.Path) -> None:
    program("coordinator", "credentials", "create", "--out", tmp_path / "credentials")
    for url in serve(tmp_path / "data", "--credentials", tmp_path / "credentials/coordinator"):
        assert url.startswith("https://")
        operator = Coordinator(url, tmp_path / "credentials/operator")
        assert operator.submit(SPEC) == 2
        with pytest.raises(CoordinatorError) as refusal:
            Coordinator(url, tmp_path / "credentials/observer").cancel("small")
        assert refusal.value.code == "forbidden"
        with pytest.raises(CoordinatorError, match="certificate") as refusal:
            Coordinator(url).nodes()
        assert refusal.value.code == "unavailable"


def test_a_token_goes_to_coordinators_alone(program: Run, tmp_path: pathlib.Path) -> None:
    credentials, tokens = tmp_path / "credentials", tmp_path / "tokens"
    program("coordinator", "credentials", "create", "--out", credentials)
    token = program("coordinator", "credentials", "token", "me", "--file", tokens).strip()
    for url in serve(tmp_path / "data", "--credentials", credentials / "coordinator", "--tokens", tokens):
        assert Coordinator(url, token=token, ca=credentials / "operator/ca.pem").nodes()
    heard: list[str] = []

    class Listener(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(str(self.headers["Authorization"]))
            self.send_error(500)

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(credentials / "learner/tls.pem", credentials / "learner/tls-key.pem")
    with http.server.HTTPServer(("127.0.0.1", 0), Listener) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"https://127.0.0.1:{server.server_port}"
        for given in ({"token": token, "ca": credentials / "operator/ca.pem"}, {"credentials": credentials / "operator"}):
            with pytest.raises(CoordinatorError, match="not a coordinator's"):
                Coordinator(url, **given).nodes()
        server.shutdown()
    assert heard == []
    with pytest.raises(ValueError, match="use https"):
        Coordinator("http://127.0.0.1:7070", token=token, ca=credentials / "operator/ca.pem")
    with pytest.raises(ValueError, match="give ca too"):
        Coordinator(url, token=token)


def test_refuses_what_is_no_url() -> None:
    with pytest.raises(ValueError, match="no URL"):
        Coordinator("127.0.0.1:7070")
