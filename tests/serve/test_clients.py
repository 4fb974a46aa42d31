"""The clients that people have, unchanged: `tritonclient` over HTTP and gRPC."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import aot
from tests.kernels import ROOT, reference
from tests.serve.server import Server, X, eventually, put, when_some_wait

pytestmark = pytest.mark.slow

triton_http: Any = pytest.importorskip("tritonclient.http")
triton_grpc: Any = pytest.importorskip("tritonclient.grpc")

TYPES = {
    "BOOL": np.bool_,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
}


@pytest.fixture(scope="module")
def all_types(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One input and output of each type that NumPy has, and of bfloat16."""
    torch = pytest.importorskip("torch")

    class Each(torch.nn.Module):
        def forward(self, *inputs: "torch.Tensor") -> "tuple[torch.Tensor, ...]":
            return tuple(torch.flip(x, (1,)) for x in inputs)

    inputs = [torch.from_numpy(np.ones((2, 3), t)) for t in TYPES.values()]
    inputs.append(torch.ones(2, 3, dtype=torch.bfloat16))
    path = tmp_path_factory.mktemp("types") / "types.pkg"
    aot.package(Each(), inputs, path=path, targets=["cpu:x86-64-v3"], golden=False)
    return path


@pytest.fixture(scope="module")
def server(
    program: Path,
    package: Path,
    sleeper: Path,
    all_types: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    models = tmp_path_factory.mktemp("models")
    put(models, "relu", package)
    put(models, "sleeper", sleeper, sessions=1)
    put(models, "types", all_types)
    with Server(program, models, "--allow-control", "--grpc-port", "0") as started:
        yield started


@pytest.fixture(scope="module", params=["http", "grpc"])
def client(server: Server, request: pytest.FixtureRequest) -> Iterator[tuple[Any, Any]]:
    """The client's module, and a client."""
    if request.param == "grpc" and not server.grpc_port:
        pytest.skip("the server was built without gRPC")
    module, port = {
        "http": (triton_http, server.port),
        "grpc": (triton_grpc, server.grpc_port),
    }[request.param]
    made = module.InferenceServerClient(f"127.0.0.1:{port}")
    yield module, made
    made.close()


def given(module: Any, x: np.ndarray, name: str = "x", datatype: str = "FP32") -> Any:
    tensor = module.InferInput(name, list(x.shape), datatype)
    tensor.set_data_from_numpy(x)
    return tensor


def test_it_infers(client: tuple[Any, Any]) -> None:
    module, made = client
    result = made.infer("relu", [given(module, X)], request_id="7")
    np.testing.assert_array_equal(result.as_numpy("output"), reference(X))
    wanted = [module.InferRequestedOutput("output")]
    result = made.infer("relu", [given(module, X)], model_version="1", outputs=wanted)
    np.testing.assert_array_equal(result.as_numpy("output"), reference(X))


def test_json_alone_will_do(server: Server) -> None:
    with triton_http.InferenceServerClient(f"127.0.0.1:{server.port}") as made:
        tensor = triton_http.InferInput("x", [2, 4], "FP32")
        tensor.set_data_from_numpy(X, binary_data=False)
        wanted = [triton_http.InferRequestedOutput("output", binary_data=False)]
        result = made.infer("relu", [tensor], outputs=wanted)
        np.testing.assert_array_equal(result.as_numpy("output"), reference(X))


def test_health_and_metadata(client: tuple[Any, Any]) -> None:
    module, made = client
    assert made.is_server_live()
    assert made.is_server_ready()
    assert made.is_model_ready("relu")
    assert made.is_model_ready("relu", "1")
    assert not made.is_model_ready("none")
    as_dict = {} if module is triton_http else {"as_json": True}
    assert made.get_server_metadata(**as_dict)["name"] == "aot-serve"
    described = made.get_model_metadata("relu", **as_dict)
    assert described["versions"] == ["1"]
    (x,) = described["inputs"]
    assert (x["name"], x["datatype"], [int(n) for n in x["shape"]]) == ("x", "FP32", [-1, 4])


def test_models_are_loaded_and_unloaded(client: tuple[Any, Any]) -> None:
    module, made = client
    as_dict = {} if module is triton_http else {"as_json": True}
    made.unload_model("relu")
    assert not made.is_model_ready("relu")
    made.load_model("relu")
    assert made.is_model_ready("relu")
    index = made.get_model_repository_index(**as_dict)
    rows = index if module is triton_http else index["models"]
    assert {row["name"]: row["state"] for row in rows}["relu"] == "READY"


@pytest.mark.parametrize("as_bytes", [True, False])
def test_every_type_arrives(client: tuple[Any, Any], as_bytes: bool) -> None:
    module, made = client
    rng = np.random.default_rng(3)
    inputs, arrays = [], {}
    described = made.get_model_metadata(
        "types", **({} if module is triton_http else {"as_json": True})
    )
    names = {t["datatype"]: t["name"] for t in described["inputs"]}
    outputs = {t["datatype"]: t["name"] for t in described["outputs"]}
    for datatype, dtype in TYPES.items():
        x = rng.integers(0, 2 if datatype == "BOOL" else 100, (2, 3)).astype(dtype)
        if np.issubdtype(dtype, np.signedinteger):
            x = -x
        arrays[datatype] = x
        tensor = module.InferInput(names[datatype], [2, 3], datatype)
        if module is triton_http:
            tensor.set_data_from_numpy(x, binary_data=as_bytes or datatype == "FP16")
        else:
            tensor.set_data_from_numpy(x)
        inputs.append(tensor)
    tensor = module.InferInput(names["BF16"], [2, 3], "BF16")
    tensor.set_data_from_numpy(np.full((2, 3), 1.5, ml_dtypes.bfloat16))
    inputs.append(tensor)
    wanted = None
    if module is triton_http and not as_bytes:
        wanted = [
            module.InferRequestedOutput(n, binary_data=t in {"FP16", "BF16"})
            for t, n in outputs.items()
        ]
    result = made.infer("types", inputs, outputs=wanted)
    for datatype, x in arrays.items():
        np.testing.assert_array_equal(result.as_numpy(outputs[datatype]), x[:, ::-1])
    np.testing.assert_array_equal(result.as_numpy(outputs["BF16"]).astype(np.float32), 1.5)


WRONG = [
    ("none", np.ones((2, 4), np.float32), "x", "FP32", "model 'none' is not loaded"),
    ("relu", np.ones((2, 5), np.float32), "x", "FP32", "dimension 1"),
    ("relu", np.ones((2, 4), np.float32), "y", "FP32", "no input 'y'"),
    ("relu", np.ones((2, 4), np.int32), "x", "INT32", "must be FP32, not INT32"),
    ("relu", np.array([b"a"], object), "x", "BYTES", "packages have no strings"),
]


@pytest.mark.parametrize(("model", "x", "name", "datatype", "word"), WRONG)
def test_mistakes_become_the_clients_errors(
    client: tuple[Any, Any], model: str, x: np.ndarray, name: str, datatype: str, word: str
) -> None:
    module, made = client
    with pytest.raises(Exception, match=word) as caught:
        made.infer(model, [given(module, x, name, datatype)])
    assert type(caught.value).__name__ == "InferenceServerException"
    assert made.infer("relu", [given(module, X)]) is not None


def test_deadlines_and_cancellation_over_grpc(server: Server) -> None:
    if not server.grpc_port:
        pytest.skip("the server was built without gRPC")
    slow = np.array([[800, 0, 0, 0]], np.float32)
    none = np.zeros((1, 4), np.float32)
    with triton_grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as made:
        done: list[object] = []
        for _ in range(2):
            made.async_infer(
                "sleeper", [given(triton_grpc, slow)], lambda result, error: done.append(error)
            )
        when_some_wait(server, 1)  # behind the one that runs
        with pytest.raises(triton_grpc.InferenceServerException, match=r"(?i)deadline"):
            made.infer("sleeper", [given(triton_grpc, none)], client_timeout=0.1)
        with pytest.raises(triton_grpc.InferenceServerException, match="time was over"):
            made.infer("sleeper", [given(triton_grpc, none)], timeout=50_000)
        calls = [
            made.async_infer("sleeper", [given(triton_grpc, slow)], lambda result, error: None)
            for _ in range(5)
        ]
        when_some_wait(server, 4)
        for call in calls:
            call.cancel()
        begun = time.monotonic()
        made.infer("sleeper", [given(triton_grpc, none)])
        assert time.monotonic() - begun < 4  # the five would take as long, behind who runs
        assert eventually(lambda: done if len(done) == 2 else None) == [None] * 2
    assert server.metric("aot_requests_total", code="CANCELLED") >= 4


def test_typed_contents_over_grpc(server: Server) -> None:
    if not server.grpc_port:
        pytest.skip("the server was built without gRPC")
    grpc = pytest.importorskip("grpc")
    from tritonclient.grpc import service_pb2, service_pb2_grpc

    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        message = service_pb2.ModelInferRequest(model_name="relu")
        tensor = message.inputs.add(name="x", datatype="FP32", shape=[2, 4])
        tensor.contents.fp32_contents.extend(X.ravel().tolist())
        reply = stub.ModelInfer(message)
        got = np.frombuffer(reply.raw_output_contents[0], np.float32).reshape(2, 4)
        np.testing.assert_array_equal(got, reference(X))
        tensor.contents.fp32_contents.append(1)
        with pytest.raises(grpc.RpcError, match="the shape has 8 elements, data has 9"):
            stub.ModelInfer(message)
        message.raw_input_contents.extend([b"1", b"2"])
        with pytest.raises(grpc.RpcError, match="1 inputs and 2 raw_input_contents"):
            stub.ModelInfer(message)


def came(server: Server) -> float:
    """Requests that are answered or wait."""
    return server.metric("aot_requests_total") + server.metric("aot_queue_length")


def test_an_end_loses_no_call(program: Path, sleeper: Path, tmp_path: Path) -> None:
    put(tmp_path, "m", sleeper, sessions=1)
    with Server(program, tmp_path, "--grpc-port", "0") as server:
        if not server.grpc_port:
            pytest.skip("the server was built without gRPC")
        done: list[object] = []
        with triton_grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as made:
            x = np.array([[100, 0, 0, 0]], np.float32)
            for _ in range(8):
                made.async_infer(
                    "m", [given(triton_grpc, x)], lambda result, error: done.append(error)
                )
            eventually(lambda: came(server) >= 7)  # and one runs
            assert server.end() == 0
            assert eventually(lambda: done if len(done) == 8 else None) == [None] * 8


@pytest.mark.skipif(shutil.which("protoc") is None, reason="needs protobuf-compiler")
def test_our_messages_are_the_protocols(tmp_path: Path) -> None:
    """Every message, field and method of ours is what Triton's client has under that name."""
    from google.protobuf import descriptor_pb2
    from tritonclient.grpc import service_pb2

    out = tmp_path / "ours"
    source = ROOT / "cpp" / "serve" / "open_inference.proto"
    subprocess.run(["protoc", f"-I{source.parent}", f"-o{out}", str(source)], check=True)
    (ours,) = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    theirs = descriptor_pb2.FileDescriptorProto()
    service_pb2.DESCRIPTOR.CopyToProto(theirs)
    assert ours.package == theirs.package
    expected = _fields(theirs.message_type)
    for name, field in _fields(ours.message_type).items():
        assert field == expected[name], name
    methods = {m.name: (m.input_type, m.output_type) for m in theirs.service[0].method}
    assert ours.service[0].name == theirs.service[0].name
    for method in ours.service[0].method:
        assert methods[method.name] == (method.input_type, method.output_type)


def _fields(messages: Any, prefix: str = "") -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {}
    for message in messages:
        name = f"{prefix}{message.name}"
        for f in message.field:
            found[f"{name}.{f.name}"] = (f.number, f.type, f.label, f.type_name)
        found |= _fields(message.nested_type, f"{name}.")
    return found


def test_the_answer_keeps_to_the_protocols_json(server: Server) -> None:
    """What KServe's client reads: each field of an output by its name."""
    body = json.dumps(
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}
    )
    answer = server.ask("POST", "/v2/models/relu/infer", body).json
    assert set(answer) == {"model_name", "model_version", "outputs"}
    assert set(answer["outputs"][0]) == {"name", "datatype", "shape", "data"}
