"""Runs launches of Triton kernels on the CPU, in a process of its own: a pickled request at a time.

Triton's interpreter, with what it lacks for comparing results: rounding to bfloat16, the functions
of libdevice, matrix products in the precision that is asked for, reductions by vectors, and a check
that every address lies within a buffer of the launch. TRITON_INTERPRET=1 has to be set.

Request: {"functions": name -> (text, signature), "buffers": [bytes], "launches":
[(function, [buffer number], [size], grid)]}; answer: ("done", [bytes], fault) or
("failed", message).
"""

from __future__ import annotations

import linecache
import math
import os
import pickle
import struct
import sys
import traceback
from functools import cache
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import triton.language as tl
from triton._C.libtriton import ir
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter
from triton.runtime.interpreter import (
    InterpretedFunction,
    InterpreterBuilder,
    InterpreterOptions,
    ReduceOps,
    ScanOps,
    TensorHandle,
)

_BF16 = np.dtype(ml_dtypes.bfloat16)
_SENTINEL = 0xAB
_ZONE = 256
_modules: dict[tuple[str, str], InterpretedFunction] = {}


# ---- what the interpreter lacks ----


def _element(dtype):
    return _BF16 if dtype.scalar == tl.bfloat16 else None


def _plain(handle):
    """The handle's data as numbers: bfloat16 lies in 16-bit integers."""
    element = _element(handle.dtype)
    return handle.data if element is None else handle.data.view(element)


def _cast(self, source, target):
    element = _element(target)
    data = _plain(source)
    if element is not None:
        narrow = np.ascontiguousarray(data).astype(element).view(np.uint16)
        return TensorHandle(narrow.reshape(data.shape), tl.bfloat16)
    return TensorHandle(data.astype(interpreter._get_np_dtype(target)), target.scalar)


def _cast_float(self, source, target, rounding):
    assert rounding in (None, ir.ROUNDING_MODE.RTNE)
    return _cast(self, source, target)


def _round_to_tf32(data):
    bits = data.view(np.uint32)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(data), rounded.view(np.float32), data)


def _cut_to_tf32(data):
    """As tensor cores do: what is behind 11 bits is nothing to them."""
    bits = np.ascontiguousarray(data).view(np.uint32) & np.uint32(0xFFFFE000)
    return bits.view(np.float32)


def _dot(self, a, b, d, precision, *_):
    left, right = (_plain(x).astype(d.data.dtype) for x in (a, b))
    if a.dtype.scalar != tl.float32 or precision == ir.INPUT_PRECISION.IEEE:
        return TensorHandle(np.matmul(left, right) + d.data, d.dtype.scalar)
    if precision != ir.INPUT_PRECISION.TF32x3:
        total = np.matmul(_cut_to_tf32(left), _cut_to_tf32(right))
    else:
        high, other = _round_to_tf32(left), _round_to_tf32(right)
        total = np.matmul(high, other)
        low, rest = (_round_to_tf32(x - y) for x, y in ((left, high), (right, other)))
        small = np.matmul(low, other) + np.matmul(high, rest)
        total = total + np.where(np.isnan(small), np.float32(0), small)
    return TensorHandle(total + d.data, d.dtype.scalar)


def _arithmetic(method):
    def checked(self, first, *rest):
        operands = [x for x in (first, *rest) if isinstance(x, TensorHandle)]
        if any(x.dtype.scalar == tl.bfloat16 for x in operands):
            raise TypeError("arithmetic on bfloat16; the kernel must compute in float32")
        made = method(self, first, *rest)
        # A comparison's result would be taken for a number of its operands' type.
        return TensorHandle(made.data, tl.int1) if made.data.dtype == bool else made

    return checked


def _by_name(original):
    kept: dict[str, np.dtype] = {}

    def element(kind):
        # A table of all types is made for each answer.
        if type(kind) is not tl.dtype:
            return original(kind)
        if kind.name not in kept:
            kept[kind.name] = original(kind)
        return kept[kind.name]

    return element


_kinds: dict[tuple[object, ...], dict[str, object]] = {}


def _block(original):
    def make(self, element, shape):
        # By the element's identity, as pointers have no hash: what is kept holds it.
        key = (id(element), *getattr(shape, "values", shape))
        kept = _kinds.get(key)
        if kept is None:
            original(self, element, shape)
            _kinds[key] = vars(self)
        else:
            vars(self).update(kept)

    return make


def _tensor(original):
    def make(self, handle, kind):
        # Extents as constants of the language, for each value anew, are a tenth of the time.
        kept = vars(kind).get("_of_tensors")
        if kept is None:
            original(self, handle, kind)
            kind._of_tensors = {k: v for k, v in vars(self).items() if k not in ("handle", "type")}
        else:
            vars(self).update(kept, handle=handle, type=kind)

    return make


def _broadcast(original):
    def both(self, left, right):
        # Triton compares a tuple with a list, so it makes tensors anew of what has the same shape.
        kinds = (left.type, right.type)
        if all(k.is_block() for k in kinds) and kinds[0].shape == kinds[1].shape:
            return left, right
        return original(self, left, right)

    return both


def _combined(self, left, right, dtypes):
    combine = self.combine_fn.rewrite()
    made = combine(
        *(self.to_tensor(x, t) for x, t in zip(left, dtypes, strict=True)),
        *(self.to_tensor(x, t) for x, t in zip(right, dtypes, strict=True)),
    )
    made = made if isinstance(made, tuple) else (made,)
    for value, dtype in zip(made, dtypes, strict=True):
        assert value.dtype == dtype, f"the combination of {dtype} gives {value.dtype}"
    return [value.handle.data for value in made]


def _reduce(self, operands):
    """Combines neighbours until one is left, all rows at once."""
    axis, dtypes = self.axis, [x.dtype for x in operands]
    data = [x.handle.data for x in operands]
    if axis is None:
        data, axis = [x.reshape(-1) for x in data], 0
    rank = operands[0].handle.data.ndim
    data = [np.moveaxis(x, axis, 0) for x in data]
    while len(data[0]) > 1:
        data = _combined(self, [x[0::2] for x in data], [x[1::2] for x in data], dtypes)
    results = [x[0] for x in data]
    if self.keep_dims:
        results = [
            x.reshape((1,) * rank) if self.axis is None else np.expand_dims(x, axis)
            for x in results
        ]
    return [
        self.to_tensor(x if x.ndim else x[()], dtype)
        for x, dtype in zip(results, dtypes, strict=True)
    ]


def _scan(self, operands):
    """Each element with the one 1, 2, 4, … places before it."""
    dtypes = [x.dtype for x in operands]
    data = [np.moveaxis(x.handle.data, self.axis, 0) for x in operands]
    distance = 1
    while distance < len(data[0]):
        # Whole blocks, whose sizes are powers of two; those that wrap around are not kept.
        made = _combined(self, [np.roll(x, distance, 0) for x in data], data, dtypes)
        pairs = zip(data, made, strict=True)
        data = [np.concatenate([x[:distance], m[distance:].astype(x.dtype)]) for x, m in pairs]
        distance *= 2
    restored = [np.ascontiguousarray(np.moveaxis(x, 0, self.axis)) for x in data]
    return [self.to_tensor(x, dtype) for x, dtype in zip(restored, dtypes, strict=True)]


def _call(self, *args, **kwargs):
    # `_repair` has prepared the language; doing so at each call would take most of the time.
    return self.rewrite()(*args, **kwargs)


# ---- libdevice ----


@cache
def _torch():
    import torch  # needed for a few functions only, and slow to import

    return torch


def _special(name):
    def function(x):
        tensor = _torch().from_numpy(np.array(x, np.float64))
        return getattr(_torch().special, name)(tensor).numpy()

    return function


def _rounded_power(a, b):
    return np.power(a, b)


_FUNCTIONS = {
    **{
        name: getattr(np, numpy_name)
        for name, numpy_name in {
            **{n: n for n in "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh".split()},
            **{n: n for n in "tanh floor ceil trunc rint hypot fmod copysign fabs sqrt".split()},
            "asin": "arcsin",
            "acos": "arccos",
            "atan": "arctan",
            "asinh": "arcsinh",
            "acosh": "arccosh",
            "atanh": "arctanh",
            "atan2": "arctan2",
            "isnan": "isnan",
            "isinf": "isinf",
            "signbit": "signbit",
        }.items()
    },
    "pow": _rounded_power,
    "fast_expf": np.exp,
    "cospi": lambda x: np.cos(np.pi * x),
    "sinpi": lambda x: np.sin(np.pi * x),
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "erf": _special("erf"),
    "erfc": _special("erfc"),
    "erfinv": _special("erfinv"),
    "lgamma": _special("gammaln"),
    "cyl_bessel_i0": _special("i0"),
    "cyl_bessel_i1": _special("i1"),
    "digamma": _special("digamma"),
}


def _library_function(name):
    function = np.nextafter if name == "nextafter" else _FUNCTIONS[name]

    def call(*args):
        semantic = interpreter.interpreter_semantic
        args = [semantic.to_tensor(a) for a in args]
        dtypes = {a.dtype for a in args}
        if dtypes - {tl.float32, tl.float64} or len(dtypes) != 1:
            raise TypeError(f"libdevice.{name} of {', '.join(str(a.dtype) for a in args)}")
        exact = name != "nextafter"
        data = [a.handle.data.astype(np.float64) if exact else a.handle.data for a in args]
        made = np.asarray(function(*data))
        dtype = tl.int32 if made.dtype == bool else args[0].dtype
        shape = max((a for a in args), key=lambda a: len(a.shape))
        kind = tl.block_type(dtype, list(made.shape)) if shape.type.is_block() else dtype
        return tl.tensor(TensorHandle(made.astype(interpreter._get_np_dtype(dtype)), dtype), kind)

    return call


_LIBRARY = SimpleNamespace(**{name: _library_function(name) for name in (*_FUNCTIONS, "nextafter")})


# ---- instructions ----


def _like(tensor, data):
    made = np.ascontiguousarray(data, tensor.handle.data.dtype)
    return tl.tensor(TensorHandle(made, tensor.dtype), tensor.type)


def _in_order_of_digits(packed, *_):
    # The numbers are all different: any sort does it.
    return _like(packed, np.sort(packed.handle.data))


def _numbers_of_digits(packed, bits, *_):
    digits = packed.handle.data >> int(bits)
    return _like(packed, np.bincount(digits, minlength=digits.size))


def _warp_most(x):
    most = np.max(x.handle.data, axis=-1, keepdims=True)
    return _like(x, np.broadcast_to(most, x.handle.data.shape))


def _rough(x):
    """To about as many bits as the device has: what follows must find the others."""
    part, power = np.frexp(x)
    return np.ldexp(np.rint(part * 2**20), power - 20)


def _rough_inverse(x):
    return _like(x, _rough(1 / x.handle.data.astype(np.float64)))


def _rough_inverse_root(x):
    return _like(x, _rough(1 / np.sqrt(x.handle.data.astype(np.float64))))


# ---- addresses ----


class Memory:
    """The buffers of the launch that runs, and the check of addresses."""

    def __init__(self):
        self.starts = np.zeros(0, np.uint64)
        self.ends = np.zeros(0, np.uint64)

    def declare(self, regions):
        """The (address, bytes) of every buffer."""
        ordered = sorted(regions)
        self.starts = np.array([a for a, _ in ordered], np.uint64)
        self.ends = np.array([a + n for a, n in ordered], np.uint64)

    def check(self, pointers, mask, what):
        """Raises IndexError for an address outside of all buffers."""
        element = pointers.get_element_ty()
        size = np.uint64(max(1, element.primitive_bitwidth // 8))
        active = pointers.data if mask is None else pointers.data[mask]
        if active.size == 0:
            return
        place = np.searchsorted(self.starts, active, side="right") - 1
        inside = (place >= 0) & (active + size <= self.ends[np.maximum(place, 0)])
        if not inside.all():
            raise IndexError(f"{what} outside of every buffer, in {(~inside).sum()} lanes")


_memory = Memory()


def _mask_of(pointers, mask):
    if mask is None:
        return None
    return np.broadcast_to(mask.data, pointers.data.shape).astype(bool)


def _checked_load(original):
    def load(self, pointers, mask, other, *rest, **named):
        _memory.check(pointers, _mask_of(pointers, mask), "a load")
        return original(self, pointers, mask, other, *rest, **named)

    return load


def _checked_store(original):
    def store(self, pointers, value, mask, *rest):
        _memory.check(pointers, _mask_of(pointers, mask), "a store")
        return original(self, pointers, value, mask, *rest)

    return store


def _checked_atomic(original):
    def change(self, operation, pointers, value, mask, *rest):
        _memory.check(pointers, _mask_of(pointers, mask), "an atomic operation")
        return original(self, operation, pointers, value, mask, *rest)

    return change


def _repair() -> None:
    builder = InterpreterBuilder
    # Integers wrap on the device; looking for that takes two thirds of the time.
    interpreter.interpreter_builder.options = InterpreterOptions(sanitize_overflow=False)
    builder.cast_impl = _cast
    builder.create_fp_to_fp = _cast_float
    builder.create_dot = _dot
    builder.binary_op = _arithmetic(builder.binary_op)
    builder.unary_op = _arithmetic(builder.unary_op)
    builder.create_masked_load = _checked_load(builder.create_masked_load)
    builder.create_masked_store = _checked_store(builder.create_masked_store)
    builder.create_atomic_rmw = _checked_atomic(builder.create_atomic_rmw)
    interpreter._get_np_dtype = _by_name(interpreter._get_np_dtype)
    tl.tensor.__init__ = _tensor(tl.tensor.__init__)
    tl.block_type.__init__ = _block(tl.block_type.__init__)
    TritonSemantic.broadcast_impl_value = _broadcast(TritonSemantic.broadcast_impl_value)
    ReduceOps.generic_reduce = _reduce
    ScanOps.generic_scan = _scan
    InterpretedFunction.__call__ = _call
    # For good, in all modules of the language: the functions of tl.standard see tl.core alone.
    interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))


# ---- launches ----


def _function(name, text):
    if (name, text) not in _modules:
        file = f"<kernel {len(_modules)}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        namespace = {"__name__": "kernel"}
        exec(compile(text, file, "exec"), namespace)
        if "libdevice" in namespace:
            namespace["libdevice"] = _LIBRARY
        # Launches follow one another here: none starts early.
        for waiting in ("gdc_launch_dependents", "gdc_wait"):
            if waiting in namespace:
                namespace[waiting] = lambda: None
        for ordering, here in (
            ("in_order_of_digits", _in_order_of_digits),
            ("numbers_of_digits", _numbers_of_digits),
            ("warp_most", _warp_most),
            ("rough_inverse", _rough_inverse),
            ("rough_inverse_root", _rough_inverse_root),
        ):
            if ordering in namespace:  # its instructions are for the device
                namespace[ordering] = here
        _modules[name, text] = namespace[name]
    return _modules[name, text]


@cache
def _pointer(kind):
    return tl.pointer_type(tl.str_to_ty(kind[1:], None))


def _argument(kind, value):
    if kind.startswith("*"):
        pointer = _pointer(kind)
        return tl.tensor(TensorHandle(np.array([value], np.uint64), pointer), pointer)
    dtype = tl.str_to_ty(kind, None)
    data = np.array([value], interpreter._get_np_dtype(dtype))
    return tl.tensor(TensorHandle(data, dtype), dtype)


class _Buffer:
    """Bytes between two zones whose content must survive; aligned as on a device."""

    def __init__(self, content):
        self.size = len(content)
        self._all = np.full(self.size + 3 * _ZONE, _SENTINEL, np.uint8)
        start = _ZONE + (-self._all.ctypes.data) % _ZONE
        self._start = start
        self.address = self._all.ctypes.data + start
        self._all[start : start + self.size] = np.frombuffer(content, np.uint8)

    def content(self):
        """The bytes of the buffer."""
        return self._all[self._start : self._start + self.size].tobytes()

    def intact(self):
        """True while nobody has written around the buffer."""
        around = (self._all[: self._start], self._all[self._start + self.size :])
        return all((zone == _SENTINEL).all() for zone in around)


def run(request):
    """Runs the launches in order; gives the buffers and whether a kernel reported a fault."""
    buffers = [_Buffer(content) for content in request["buffers"]]
    fault = _Buffer(struct.pack("i", 0))
    for name, numbers, sizes, grid in request["launches"]:
        text, signature = request["functions"][name]
        function = _function(name, text)
        values = [buffers[k].address for k in numbers]
        used = [buffers[k] for k in numbers]
        if len(signature) == len(numbers) + 1 + len(sizes):
            values.append(fault.address)
            used.append(fault)
        values += sizes
        assert len(values) == len(signature), f"{name}: {len(values)} values for {signature}"
        if not math.prod(grid):
            continue
        _memory.declare([(b.address, b.size) for b in used])
        pairs = zip(signature, values, strict=True)
        try:
            function[grid](*(_argument(kind, value) for kind, value in pairs))
        except Exception as error:  # of any kind: it goes on, saying in which kernel it arose
            error.add_note(f"in {name}, grid {grid}, sizes {sizes}:\n{text}")
            raise
        assert all(b.intact() for b in used), f"{name} writes around its buffers"
    return [b.content() for b in buffers], struct.unpack("i", fault.content())[0]


def main() -> None:
    """Answers requests until the input ends."""
    _repair()
    np.seterr(all="ignore")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = ("done", *run(request))
        except Exception:  # of any kind: the test that asked fails with it, other tests go on
            answer = ("failed", traceback.format_exc())
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
