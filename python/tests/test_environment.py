"""Environments of one's own: their server, their task files, and training on them with the real learner."""

import csv
import json
import os
import pathlib
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import gymnasium
import msgpack
import numpy as np
import onnxruntime
import pytest
import yaml
from conftest import PROGRAMS, ROOT, Run

import dbqpg
from dbqpg.describe import describe
from dbqpg.environment import make

EXAMPLES = ROOT / "python/examples"
TESTS = pathlib.Path(__file__).parent


class Client:
    """The program's end of a server."""

    def __init__(self, target: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dbqpg.environment", target],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=TESTS,
        )

    def ask(self, *request: Any) -> list[Any]:
        source, sink = self.process.stdout, self.process.stdin
        assert source is not None and sink is not None
        message = msgpack.packb(request)
        sink.write(struct.pack(">I", len(message)) + message)
        sink.flush()
        (length,) = struct.unpack(">I", source.read(4))
        answer: list[Any] = msgpack.unpackb(source.read(length))
        return answer

    def close(self) -> str:
        """Ends the server, and returns what it has written to standard error."""
        _, words = self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return words.decode()


@pytest.fixture
def connect() -> Iterator[Any]:
    clients: list[Client] = []

    def to(target: str) -> Client:
        clients.append(Client(target))
        return clients[-1]

    yield to
    for client in clients:
        client.process.kill()
        client.process.communicate()


def test_same_episode_as_gymnasiums_own(connect: Any) -> None:
    client = connect("gymnasium:Hopper-v5")
    assert client.ask("hello", 1, 2) == ["hello", 1, 11, 3]
    env = gymnasium.make("Hopper-v5")
    first, _ = env.reset(seed=7)
    for index in (0, 1):
        kind, observation = client.ask("reset", index, 7)
        assert kind == "reset" and np.array_equal(np.frombuffer(observation), first)
    actions = np.random.default_rng(7).uniform(-1, 1, (30, 3)).astype(np.float32)
    for action in actions:
        want, reward, terminated, _, _ = env.step(action)
        both = np.stack([action, action]).astype(np.float64)
        kind, observations, rewards, ends, errors = client.ask("step", [1, 0], both.tobytes())
        assert kind == "step" and errors == []
        assert np.array_equal(np.frombuffer(observations).reshape(2, 11), [want, want])
        assert struct.unpack("<2d", rewards) == (reward, reward) and ends == bytes([terminated, terminated])
        if terminated:
            break


def test_what_is_printed_is_no_answer(connect: Any) -> None:
    client = connect("awkward:Chatty")
    assert client.ask("hello", 1, 1) == ["hello", 1, 2, 1]
    client.ask("reset", 0, 1)
    assert client.ask("step", [0], struct.pack("<d", 1))[0] == "step"
    words = client.close()
    assert "a friendly library" in words and "reset" in words and "step [1.]" in words


@pytest.mark.parametrize(
    ("target", "words"),
    [("awkward:Raises", "RuntimeError: the gripper is lost"), ("awkward:Grows", "an observation has shape (3,), and its space (2,)")],
)
def test_errors_are_those_of_one_environment(connect: Any, target: str, words: str) -> None:
    client = connect(target)
    client.ask("hello", 1, 2)
    client.ask("reset", 1, 1)
    kind, observations, rewards, ends, errors = client.ask("step", [1], struct.pack("<d", 1))
    assert (kind, observations, rewards, ends) == ("step", bytes(16), bytes(8), b"\4")
    assert len(errors) == 1 and errors[0].rstrip().endswith(words)
    assert client.ask("reset", 0, 1)[0] == "reset"


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("gymnasium:Hoper-v5", "Environment `Hoper` doesn't exist"),
        ("awkward:Sings", "and only a Box, Discrete, MultiDiscrete or MultiBinary can be learned"),
        ("nowhere:Nothing", "No module named 'nowhere'"),
        ("Hopper-v5", "a target is gymnasium:NAME"),
    ],
)
def test_targets_that_cannot_be_made(connect: Any, target: str, words: str) -> None:
    kind, text = connect(target).ask("hello", 1, 1)
    assert kind == "error" and words in text


def test_describe() -> None:
    described = yaml.safe_load(describe("gymnasium:Hopper-v5", {"frame_skip": 2}))
    assert described == {
        "name": "gymnasium-Hopper-v5", "observations": 11, "actions": 3, "low": [-1, -1, -1], "high": [1, 1, 1], "steps": 1000,
        "command": [sys.executable, "-m", "dbqpg.environment", "gymnasium:Hopper-v5", "--kwargs", '{"frame_skip": 2}'],
    }


@pytest.mark.parametrize(
    ("target", "choices"),
    [("gymnasium:CartPole-v1", [2]), ("gymnasium:Acrobot-v1", [3]), ("awkward:Buttons", [2, 3])],
)
def test_describe_discrete_actions(target: str, choices: list[int]) -> None:
    described = yaml.safe_load(describe(target, {}))
    assert described["choices"] == choices and described["actions"] == len(choices) and "low" not in described


def test_discrete_actions(connect: Any) -> None:
    client = connect("awkward:Buttons")
    assert client.ask("hello", 1, 2) == ["hello", 1, 2, 2, [2, 3]]
    for index in (0, 1):
        client.ask("reset", index, 1)
    kind, observations, _, ends, errors = client.ask("step", [0, 1], np.array([[0.0, 2.0], [1.0, 0.0]]).tobytes())
    assert (kind, ends, errors) == ("step", b"\0\0", [])
    assert np.frombuffer(observations).tolist() == [5, 1, 6, -1]
    client = connect("gymnasium:CartPole-v1")
    assert client.ask("hello", 1, 1) == ["hello", 1, 4, 1, [2]]
    env = gymnasium.make("CartPole-v1")
    first, _ = env.reset(seed=3)
    assert np.array_equal(np.frombuffer(client.ask("reset", 0, 3)[1]), first.astype(float))
    for action in (0, 1, 1, 0):
        want, *_ = env.step(action)
        assert np.array_equal(np.frombuffer(client.ask("step", [0], struct.pack("<d", action))[1]), want.astype(float))


def test_describe_warns_of_an_ignored_seed(capsys: pytest.CaptureFixture[str]) -> None:
    describe("awkward:Chatty", {})
    assert "seed" not in capsys.readouterr().err
    describe("awkward:Seedless", {})
    assert "awkward:Seedless ignores the seed given to reset" in capsys.readouterr().err


def test_a_wrong_shape_is_one_line(connect: Any) -> None:
    client = connect("awkward:Grows")
    client.ask("hello", 1, 1)
    client.ask("reset", 0, 1)
    *_, errors = client.ask("step", [0], struct.pack("<d", 1))
    assert errors == ["an observation has shape (3,), and its space (2,)"]


def test_flattens_what_is_no_vector() -> None:
    gymnasium.register("Nested-v0", entry_point=Nested, max_episode_steps=5)
    env = make("gymnasium:Nested-v0", {})
    observation, _ = env.reset(seed=1)
    assert observation.shape == (3,)
    described = yaml.safe_load(describe("gymnasium:Nested-v0", {}, name="Nested"))
    assert described["observations"] == 3 and described["low"] == [float("-inf")] and described["steps"] == 5


@pytest.mark.parametrize(
    ("target", "says"),
    [("gymnasium:Hoper-v5", "gymnasium:Hoper-v5: .*Hoper"), ("numpy:Balanc", "the module numpy has no Balanc"), ("balance", "a target is")],
)
def test_describe_names_what_is_wrong(target: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        describe(target, {})


class Nested(gymnasium.Env[Any, Any]):
    observation_space = gymnasium.spaces.Dict(
        {"a": gymnasium.spaces.Box(-1, 1, (2,)), "b": gymnasium.spaces.Box(-1, 1, (1,))}
    )
    action_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return {"a": np.zeros(2, np.float32), "b": np.ones(1, np.float32)}, {}


def write_task(directory: pathlib.Path, target: str, where: pathlib.Path) -> pathlib.Path:
    """Describes a target as its user does, in a directory of theirs."""
    command = [sys.executable, "-m", "dbqpg.describe", target, "--steps", "50"]
    task = directory / "task.yaml"
    task.write_text(subprocess.run(command, cwd=where, stdout=subprocess.PIPE, text=True, check=True).stdout)
    return task


@pytest.mark.parametrize(
    ("target", "where"),
    [("balance:Balance", EXAMPLES), ("dm_control:cartpole/balance", TESTS), ("awkward:Chatty", TESTS)],
)
def test_trains(program: Run, tmp_path: pathlib.Path, target: str, where: pathlib.Path) -> None:
    program(
        "learner", "--task", write_task(tmp_path, target, where), "--run-dir", tmp_path / "run", "--iterations", 2, "--batch", 100,
        "--rank", 10, "--actors", 1, "--evaluate-every", 0, "--listen", "127.0.0.1:0",
    )
    with open(tmp_path / "run/progress.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["iteration"] for row in rows] == ["0", "1"]
    assert all(np.isfinite(float(row["return_mean"])) for row in rows)
    folder = tmp_path / "exported"
    program("learner", "export", tmp_path / "run", "--task", tmp_path / "task.yaml", "--episodes", 2, "--to", folder)
    assert np.isfinite(json.loads((folder / "results.json").read_text())["mean_reward"])
    examples = np.load(folder / "examples.npz")
    np.testing.assert_allclose(dbqpg.load(folder)(examples["observations"]), examples["actions"], rtol=0, atol=1e-6)


def learner(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs the learner with this Python first in the path."""
    path = {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run([PROGRAMS / "learner", *map(str, arguments)], env=path, capture_output=True, text=True)


@pytest.fixture(scope="session")
def discrete(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Returns the directory of a short run of one of Gymnasium's environments, by its name alone."""
    directory = tmp_path_factory.mktemp("runs") / "cartpole"
    done = learner(
        "--env", "CartPole-v1", "--run-dir", directory, "--steps", 12_000, "--estimator", "uapg", "--actors", 2, "--http", "off",
        "--listen", "127.0.0.1:0",
    )
    assert done.returncode == 0, done.stderr
    return directory


def test_a_name_of_gymnasiums_is_enough(discrete: pathlib.Path) -> None:
    with open(discrete / "progress.csv") as file:
        returns = [float(row["return_mean"]) for row in csv.DictReader(file)]
    assert returns[0] < 40 and max(returns) > 80, "nothing was learned"
    done = learner("evaluate", discrete, "--episodes", 2, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["task"] == "CartPole-v1"
    done = learner("--env", "CartPool-v1", "--dry-run")
    assert done.returncode == 2 and "Environment `CartPool` doesn't exist" in done.stderr
    done = learner("--env", "CartPole-v1", "--std-rate", 0.5, "--dry-run")
    assert done.returncode == 2 and "the actions of CartPole-v1 are discrete, without a standard deviation" in done.stderr


def test_discrete_policies(discrete: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = learner("export", discrete, "--episodes", 2, "--to", tmp_path)
    assert done.returncode == 0, done.stderr
    policy, examples = dbqpg.load(tmp_path, seed=1), np.load(tmp_path / "examples.npz")
    observations, actions = examples["observations"], examples["actions"]
    assert set(actions.ravel()) == {0, 1} and policy.choices == [2] and policy.action_dim == 1
    np.testing.assert_array_equal(policy(observations), actions[:, 0])
    np.testing.assert_array_equal(dbqpg.load(discrete)(observations), actions[:, 0])
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"observation": observations.astype(np.float32)})
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, actions)
    (p,) = policy.probabilities(observations)
    many = np.stack([policy(observations, deterministic=False) for _ in range(2000)])
    assert (abs(many.mean(0) - p[:, 1]) <= 5 * np.sqrt(p[:, 0] * p[:, 1] / 2000) + 1e-3).all()
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=1)
    assert env.action_space.contains(policy(observation)) and env.action_space.contains(policy(observation, deterministic=False))
    with pytest.raises(ValueError, match="discrete"):
        policy.distribution(observation)


def test_a_run_ends_with_its_environments_last_words(tmp_path: pathlib.Path) -> None:
    done = subprocess.run(
        [PROGRAMS / "learner", "--task", write_task(tmp_path, "awkward:Dies", TESTS), "--run-dir", tmp_path / "run",
         "--batch", "100", "--rank", "10", "--actors", "1", "--listen", "127.0.0.1:0"],
        capture_output=True, text=True,
    )
    assert done.returncode == 1
    _, _, message = done.stderr.partition("\nlearner: ")
    for words in ("fails for the learner itself", "exit status 11", "Segmentation fault in gripper.c"):
        assert words in message
