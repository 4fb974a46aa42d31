"""Weights of several programs: an entry for each value, however many programs read it."""

import dataclasses
from collections.abc import Iterator
from types import MappingProxyType

import numpy as np
import pytest
from aot_runtime.format.plan import Buffer as PlanBuffer
from aot_runtime.format.plan import EntryStorage

from aot.errors import InternalError
from aot.ir.dtypes import FLOAT32
from aot.ir.kernels import KernelGraph, MemoryPlan
from aot.ir.nests import Buffer, DerivedWeight
from aot.ir.tensors import Signature, Tree
from aot.link.assemble import Assembly, ProgramParts, assemble
from aot.link.placing import place_weights, weight_entries
from aot.symbolic import integer
from tests.link.plans import device_program, host_program, wide_plan

W = DerivedWeight("w_packed", "pack", ("w",))
V = DerivedWeight("v", "pack", ("w_packed",))


def weight(fqn: str, size: int = 4) -> Buffer:
    return Buffer(fqn, FLOAT32, (integer(size),), (integer(1),), "weight", fqn)


def graph(*derived: DerivedWeight, size: int = 4) -> KernelGraph:
    buffers = {b.name: b for b in (weight("w"), *(weight(d.name, size) for d in derived))}
    x = Buffer("x", FLOAT32, (integer(2), integer(3)), (integer(3), integer(1)), "input")
    return KernelGraph(
        name="g",
        dims=(),
        buffers=MappingProxyType({**buffers, "x": x}),
        kernels=(),
        inputs=("x",),
        outputs=(),
        signature=Signature((), Tree("tuple")),
        relations=(),
        decisions=(),
        derived=derived,
    )


def test_own_weights_and_equal_derived_ones_are_common() -> None:
    first, second = place_weights(["cpu", "cuda:sm_90"], [graph(W, V), graph(W)])
    assert first == {"w": "weights/w", "w_packed": "packed/w_packed", "v": "packed/v"}
    assert second == {"w": "weights/w", "w_packed": "packed/w_packed"}


def test_other_recipes_of_one_name_are_kept_apart() -> None:
    other = dataclasses.replace(W, params=(("tile", 8),))
    targets = ["cpu", "cuda:sm_80", "cuda:sm_90"]
    placed = place_weights(targets, [graph(W, V), graph(other, V), graph(W, size=8)])
    assert placed[1]["w_packed"] == "packed/w_packed@cuda:sm_80"
    # `v` is made from it: the same words, another value.
    assert placed[1]["v"] == "packed/v@cuda:sm_80"
    # The same words, another shape.
    assert placed[2]["w_packed"] == "packed/w_packed@cuda:sm_90"


class Store:
    """Weights by FQN; remembers what it was asked for."""

    def __init__(self, value: float) -> None:
        self.value = value
        self.asked: list[str] = []

    def names(self) -> tuple[str, ...]:
        return ()

    def array(self, fqn: str) -> np.ndarray:
        self.asked.append(fqn)
        return np.full(4, self.value, np.float32)

    def parts(self, fqn: str) -> Iterator[np.ndarray]:
        yield from np.split(self.array(fqn), 2)


def test_entries_come_from_the_first_program_that_reads_them() -> None:
    other = dataclasses.replace(W, params=(("tile", 8),))
    graphs = [graph(W), graph(other)]
    placed = place_weights(["cpu", "cuda:sm_90"], graphs)
    stores = [Store(1.0), Store(2.0)]
    programs = tuple(
        dataclasses.replace(
            program,
            buffers=tuple(
                PlanBuffer(fqn, "float32", 16, EntryStorage(entry)) for fqn, entry in names.items()
            ),
        )
        for program, names in zip((host_program(), device_program()), placed, strict=True)
    )
    plan = dataclasses.replace(wide_plan(), programs=programs)
    entries = weight_entries(plan, graphs, placed, stores)
    assert [e.name for e in entries] == [
        "packed/w_packed",
        "packed/w_packed@cuda:sm_90",
        "weights/w",
    ]
    values = [np.frombuffer(b"".join(e.data()), np.float32)[0] for e in entries]
    assert values == [1.0, 2.0, 1.0]
    assert stores[1].asked == ["w_packed"]


def test_a_weight_of_another_shape_than_the_graph_says() -> None:
    plan = dataclasses.replace(wide_plan(), programs=(host_program(),))
    graphs = [graph(size=4)]
    wrong = dataclasses.replace(
        graphs[0], buffers=MappingProxyType({"w": weight("w", 5), "x": graphs[0].buffers["x"]})
    )
    (entry,) = weight_entries(plan, [wrong], place_weights(["cpu"], [wrong]), [Store(0)])
    with pytest.raises(InternalError, match=r"weight w has shape \(4,\), the graph says \(5,\)"):
        list(entry.data())


def parts(made: KernelGraph, device: str) -> ProgramParts:
    return ProgramParts(device, "", made, MemoryPlan((), ()), [], [], [], {})


def test_programs_that_callers_could_tell_apart_are_refused() -> None:
    made = graph()
    turned = dataclasses.replace(made.buffers["x"], strides=(integer(1), integer(2)))
    other = dataclasses.replace(made, buffers=MappingProxyType({**made.buffers, "x": turned}))
    assert len(assemble(Assembly([parts(made, "cpu"), parts(made, "b")], "c")).programs) == 2
    with pytest.raises(InternalError, match="other inputs, outputs or dims"):
        assemble(Assembly([parts(made, "cpu"), parts(other, "b")], "c"))
