"""KServe's own client against aot-serve; run where `kserve` is installed (`make test-kserve`).

    python kserve_client.py HTTP_PORT GRPC_PORT

The server has a model "relu" of tests/kernels.py, and lets clients load and unload. Ends with
"all right", or with the assertion that failed.
"""

import asyncio
import sys

import grpc
import httpx
import numpy as np
from kserve import (
    InferenceGRPCClient,
    InferenceRESTClient,
    InferInput,
    InferRequest,
    RESTConfig,
)
from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages
from kserve.protocol.grpc import grpc_predict_v2_pb2_grpc as services

X = np.array([[-1, 2, 3, -4], [5, 6, -7, 8]], np.float32)
WANTED = np.maximum(X * np.array([1, -2, 0.5, 3], np.float32), 0)


def request(x: np.ndarray, *, binary: bool, name: str = "x") -> InferRequest:
    tensor = InferInput(name, list(x.shape), "FP32")
    tensor.set_data_from_numpy(x, binary_data=binary)
    return InferRequest(model_name="relu", infer_inputs=[tensor], request_id="7")


async def rest(port: int) -> None:
    base = f"http://127.0.0.1:{port}"
    client = InferenceRESTClient(RESTConfig(protocol="v2", retries=0, timeout=30))
    assert await client.is_server_live(base)
    assert await client.is_server_ready(base)
    assert await client.is_model_ready(base, "relu")
    for binary in (False, True):
        answer = await client.infer(base, request(X, binary=binary), model_name="relu")
        assert (answer.model_name, answer.id) == ("relu", "7"), answer
        np.testing.assert_array_equal(answer.outputs[0].as_numpy(), WANTED)
    plain = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1.0, -1.0, 2.0, 1.0]}
    told = await client.infer(base, {"inputs": [plain]}, model_name="relu")
    outputs = told["outputs"] if isinstance(told, dict) else told.to_dict()["outputs"]
    assert outputs[0]["data"] == [1.0, 2.0, 1.0, 3.0], told
    for wrong, model in ((request(X[:, :3], binary=True), "relu"), (request(X, binary=True), "no")):
        try:
            await client.infer(base, wrong, model_name=model)
        except httpx.HTTPStatusError as error:
            assert error.response.status_code == (400 if model == "relu" else 404), error
        else:
            raise AssertionError("a wrong request was answered")
    await client.close()


async def rpc(port: int) -> None:
    client = InferenceGRPCClient(f"127.0.0.1:{port}", timeout=30, retries=0)
    assert await client.is_server_live()
    assert await client.is_server_ready()
    assert await client.is_model_ready("relu")
    for binary in (False, True):
        answer = await client.infer(request(X, binary=binary))
        assert (answer.model_name, answer.id) == ("relu", "7"), answer
        np.testing.assert_array_equal(answer.outputs[0].as_numpy(), WANTED)
    try:
        await client.infer(request(X[:, :3], binary=True))
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT, error
    else:
        raise AssertionError("a wrong request was answered")
    await client.close()


def repository(port: int) -> None:
    """What the client has no methods for, by its messages."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = services.GRPCInferenceServiceStub(channel)
        told = stub.ModelMetadata(messages.ModelMetadataRequest(name="relu"))
        assert (told.inputs[0].name, told.inputs[0].datatype) == ("x", "FP32"), told
        assert list(told.inputs[0].shape) == [-1, 4], told
        assert stub.ServerMetadata(messages.ServerMetadataRequest()).name == "aot-serve"
        assert stub.RepositoryModelUnload(messages.RepositoryModelUnloadRequest(model_name="relu"))
        assert not stub.ModelReady(messages.ModelReadyRequest(name="relu")).ready
        assert stub.RepositoryModelLoad(messages.RepositoryModelLoadRequest(model_name="relu"))
        assert stub.ModelReady(messages.ModelReadyRequest(name="relu")).ready


if __name__ == "__main__":
    http_port, grpc_port = map(int, sys.argv[1:])
    asyncio.run(rest(http_port))
    if grpc_port:
        asyncio.run(rpc(grpc_port))
        repository(grpc_port)
    print("all right")
