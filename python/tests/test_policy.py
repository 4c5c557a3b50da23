"""Policies in Python against what the Go programs compute, and the formats against the tools that read them."""

import hashlib
import json
import pathlib
import struct

import numpy as np
import onnx
import onnxruntime
import pytest
import safetensors
import safetensors.numpy
import yaml
from conftest import Run

import dbqpg
from dbqpg import tensors


@pytest.fixture(scope="session")
def wild(program: Run, trained: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Returns the exported folder of a policy whose actions go beyond their bounds: a checkpoint with larger weights."""
    folder = tmp_path_factory.mktemp("wild")
    source = trained / "checkpoints/best.safetensors"
    arrays, metadata = tensors.read(source)
    del arrays["sha256"]
    changed = {name: np.array(array) * (40 if name == "policy.2.weight" else 1) for name, array in arrays.items()}
    header: dict[str, object] = {"__metadata__": metadata}  # by hand: the digest has to be the last tensor
    body = b""
    for name, array in [*sorted(changed.items()), ("sha256", np.zeros(32, np.uint8))]:
        entry = {"dtype": "U8" if name == "sha256" else "F64", "shape": list(array.shape)}
        header[name] = {**entry, "data_offsets": [len(body), len(body) + array.nbytes]}
        body += array.tobytes()
    text = json.dumps(header).encode()
    data = struct.pack("<Q", len(text)) + text + body[:-32]
    (folder / "wild.safetensors").write_bytes(data + hashlib.sha256(data).digest())
    program("learner", "export", folder / "wild.safetensors", "--to", folder / "out", "--episodes", 0, "--replay=false")
    return folder / "out"


@pytest.mark.parametrize("folder", ["exported", "wild"])
def test_actions_are_those_of_the_programs(folder: str, request: pytest.FixtureRequest) -> None:
    place = request.getfixturevalue(folder)
    examples = np.load(place / "examples.npz")
    observations, actions = examples["observations"], examples["actions"]
    assert observations.shape == (64, 8) and actions.shape == (64, 2)
    if folder == "wild":
        assert 0.1 < (abs(actions) == 1).mean() < 0.9, "the example reaches no bound"
    policy = dbqpg.load(place)
    np.testing.assert_allclose(policy(observations), actions, rtol=0, atol=1e-6)
    for observation, action in zip(observations, actions):
        np.testing.assert_allclose(policy(observation), action, rtol=0, atol=1e-6)
    model = onnx.load(place / "policy.onnx")
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(place / "policy.onnx", providers=["CPUExecutionProvider"])
    for batch in (1, 2, 64):
        (found,) = session.run(None, {"observation": observations[:batch].astype(np.float32)})
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, actions[:batch], rtol=0, atol=1e-6)
    metadata = session.get_modelmeta().custom_metadata_map
    assert metadata["task"] == "Swimmer-v2" and json.loads(metadata["action_low"]) == [-1, -1]
    assert [(x.name, x.shape) for x in session.get_inputs()] == [("observation", ["batch", 8])]
    assert [(x.name, x.shape) for x in session.get_outputs()] == [("action", ["batch", 2])]


def test_checkpoints_and_exports_agree(trained: pathlib.Path, exported: pathlib.Path) -> None:
    observations = np.load(exported / "examples.npz")["observations"]
    want = dbqpg.load(exported)(observations)
    for path in (trained, trained / "checkpoints/best.safetensors", exported / "policy.safetensors"):
        policy = dbqpg.load(path)
        assert policy.task == "Swimmer-v2" and policy.clip == 5
        np.testing.assert_array_equal(policy(observations), want)
    assert dbqpg.load(trained, "newest").metadata["iteration"] == "2"
    assert dbqpg.load(trained, 1).metadata["iteration"] == "1"
    with pytest.raises(FileNotFoundError, match="checkpoint 7"):
        dbqpg.load(trained, 7)


def test_other_readers_see_the_same_tensors(trained: pathlib.Path, exported: pathlib.Path) -> None:
    for path in (exported / "policy.safetensors", trained / "checkpoints/best.safetensors"):
        arrays, metadata = tensors.read(path)
        theirs = safetensors.numpy.load_file(path)
        assert arrays.keys() == theirs.keys()
        for name, array in theirs.items():
            np.testing.assert_array_equal(arrays[name], array)
        with safetensors.safe_open(path, "numpy") as file:
            assert file.metadata() == metadata
        assert {"policy.0.weight", "policy.0.bias", "policy.2.weight", "log_std", "normalizer.mean"} <= arrays.keys()
        assert arrays["policy.0.weight"].shape == (64, 8) and arrays["policy.2.weight"].shape == (2, 64)


def test_sampled_actions(wild: pathlib.Path) -> None:
    observations = np.load(wild / "examples.npz")["observations"]
    policy, again = dbqpg.load(wild, seed=3), dbqpg.load(wild, seed=3)
    np.testing.assert_array_equal(policy(observations, deterministic=False), again(observations, deterministic=False))
    mean, std = policy.distribution(observations)
    assert (abs(mean) > 1).any()
    many = np.stack([policy(observations, deterministic=False) for _ in range(2000)])
    error = many.mean(0) - mean  # as in training, without the bounds of +-1
    assert abs(many).max() > 1 and (abs(error) < 5 * std / np.sqrt(2000)).all()
    action, state = policy.predict(observations[0], deterministic=True)
    np.testing.assert_array_equal(action, policy(observations[0]))
    assert state is None


def test_model_card(exported: pathlib.Path, program: Run, trained: pathlib.Path) -> None:
    _, front, body = (exported / "README.md").read_text().split("---\n", 2)
    metadata = yaml.safe_load(front)
    results = json.loads((exported / "results.json").read_text())
    assert metadata["library_name"] == "dbqpg"
    assert {"Swimmer-v2", "reinforcement-learning", "deep-reinforcement-learning"} <= set(metadata["tags"])
    ((result,),) = ([model["results"] for model in metadata["model-index"]],)
    (result,) = result
    assert result["task"]["type"] == "reinforcement-learning" and result["dataset"]["name"] == "Swimmer-v2"
    (metric,) = result["metrics"]
    assert metric["type"] == "mean_reward"
    assert metric["value"] == f"{results['mean_reward']:.2f} +/- {results['std_reward']:.2f}"
    assert results["is_deterministic"] is True and results["n_eval_episodes"] == 2
    report = json.loads(program("learner", "evaluate", trained, "--episodes", 2, "--json"))
    assert report["mean_action"]["mean"] == results["mean_reward"]
    assert np.std(report["mean_action"]["returns"], ddof=1) == pytest.approx(results["std_reward"])
    assert "dbqpg.load" in body
    config = json.loads((exported / "config.json").read_text())
    assert config["hidden"] == [64, 64] and config["settings"]["env"] == "Swimmer-v2"


def encode(header: bytes, body: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + body


GOOD = b'{"x":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}}'


def test_reads_a_plain_file() -> None:
    arrays, metadata = tensors.parse(encode(GOOD, np.array([1.0, 2]).tobytes()))
    assert metadata == {} and arrays["x"].tolist() == [1, 2]


@pytest.mark.parametrize("data", [
    b"", b"1234567", struct.pack("<Q", 1 << 62), encode(b"[]"), encode(b"{"), encode(b"\xff"), encode(b"[" * 100_000),
    encode(GOOD), encode(GOOD, bytes(15)), encode(GOOD, bytes(17)),
    encode(GOOD.replace(b"[2]", b"[3]"), bytes(16)), encode(GOOD.replace(b"[2]", b"[-2]"), bytes(16)),
    encode(GOOD.replace(b"[2]", b"[true,2]"), bytes(16)), encode(GOOD.replace(b"[2]", b"2"), bytes(16)),
    encode(GOOD.replace(b"F64", b"F16"), bytes(16)), encode(GOOD.replace(b'"F64"', b"64"), bytes(16)),
    encode(GOOD.replace(b"[0,16]", b"[8,24]"), bytes(24)), encode(GOOD.replace(b"[0,16]", b"[0]"), bytes(16)),
    encode(b'{"x":1}'), encode(b'{"x":{},"x":{}}'), encode(b'{"__metadata__":{"a":1}}'), encode(b'{"__metadata__":[]}'),
    encode(b'{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"y":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"1"),
    encode(b'{"x":{"dtype":["U8"],"shape":[1],"data_offsets":[0,1]}}', b"1"),
])
def test_refuses_what_is_no_tensor_file(data: bytes, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(data)
    with pytest.raises(ValueError, match="bad.safetensors"):
        dbqpg.load(path)


def test_refuses_policies_that_make_no_sense(exported: pathlib.Path, tmp_path: pathlib.Path) -> None:
    arrays = safetensors.numpy.load_file(exported / "policy.safetensors")

    def check(message: str, **changes: object) -> None:
        changed = {name: np.array(changes.get(name.replace(".", "_"), array), dtype=np.float64) for name, array in arrays.items()}
        changed = {name: array for name, array in changed.items() if array.ndim}
        path = tmp_path / "policy.safetensors"
        safetensors.numpy.save_file(changed, path, {"task": "Swimmer-v2"})
        with pytest.raises(ValueError, match=message):
            dbqpg.load(path)

    check("no log_std", log_std=0)
    check("log_std", log_std=[0])
    check("finite", policy_0_bias=[np.nan] * 64)
    check(r"policy.1.weight", policy_1_weight=np.ones((64, 3)))
    check("no policy", policy_0_weight=0)
    check("bounds", action_low=[2, 2])
    check("standard deviation", normalizer_std=[-1] * 8)
    check("action.high", action_high=[1])
    policy = dbqpg.load(exported)
    with pytest.raises(ValueError, match="want"):
        policy(np.zeros(7))


def test_torch(exported: pathlib.Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not in the tests' environment: its wheels take gigabytes")
    import dbqpg.torch

    examples = np.load(exported / "examples.npz")
    module = dbqpg.torch.load(exported)
    found = module(torch.tensor(examples["observations"]))
    np.testing.assert_allclose(found.detach().numpy(), examples["actions"], rtol=0, atol=1e-6)
    names = {name for name in module.state_dict()}
    assert names == tensors.read(exported / "policy.safetensors").arrays.keys()
    found.sum().backward()
    assert module.policy[0].weight.grad is not None
