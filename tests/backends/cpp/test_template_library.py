"""Routines of libraries as packages: what eager promises of factors, on three levels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch
from torch import linalg
from torch.export import Dim

import aot
from aot.backends.cpp import template_library
from aot.backends.cpp.backend import CppBackend
from aot.backends.cpp.template_library import ROUTINE_KERNELS
from aot.frontend.capture import capture_module
from aot.frontend.decompose import _DOUBLINGS
from aot.frontend.ingest import ingest
from aot.ir.dtypes import FLOAT32, FLOAT64
from aot.ir.templates.library import LibraryCall, Sizes
from aot.ir.templates.real_forms import SQUARINGS
from aot.options import ALL_CPU
from aot.symbolic import integer
from tests.calls import Calls
from tests.conformance.executors import scheduled
from tests.launches import calls_of
from tests.levels import OWN, target_of
from tests.sampling import Part
from tests.settings import seeded

Array = np.ndarray[Any, Any]
BOUND = {torch.float32: 2e-5, torch.float64: 4e-14}
"""Of what is rebuilt from factors, as a part of the matrix' norm; each is a few times what eager's
own factors miss it by."""


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seeded(sum(shape)))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def packaged(
    path: Path,
    function: Callable[..., Any],
    *inputs: torch.Tensor,
    shapes: Any = None,
    levels: Sequence[str] = (OWN,),
) -> Path:
    settings = {"dynamic_shapes": shapes, "targets": [target_of(*levels)]}
    aot.package(Calls(function), inputs, path=path, golden=False, **settings)
    return path


def as_list(made: Any) -> list[Array]:
    return [np.asarray(x).astype(np.float64) for x in made]


def assert_close(found: Array, wanted: Array, dtype: torch.dtype) -> None:
    norm = np.abs(wanted).max(initial=1e-30)
    assert np.abs(found - wanted).max(initial=0.0) <= BOUND[dtype] * norm


def assert_orthonormal(columns: Array, dtype: torch.dtype) -> None:
    found = np.swapaxes(columns, -1, -2) @ columns
    assert_close(found, np.broadcast_to(np.eye(found.shape[-1]), found.shape), dtype)


def assert_rebuilt(found: Array, wanted: Array, dtype: torch.dtype) -> None:
    """As `assert_close`, of matrices whose elements add up: parts of their values' mean square."""
    mean = np.linalg.norm(wanted, axis=(-2, -1)) / np.sqrt(max(wanted.shape[-1], 1))
    norm = np.maximum(np.abs(wanted).max((-2, -1), initial=1e-30), mean)
    assert (np.abs(found - wanted).max((-2, -1), initial=0.0) <= BOUND[dtype] * norm).all()


def assert_eigen(a: Array, values: Array, vectors: Array, dtype: torch.dtype) -> None:
    whole = np.tril(a) + np.swapaxes(np.tril(a, -1), -1, -2)
    assert_rebuilt((vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2), whole, dtype)
    assert_orthonormal(vectors, dtype)
    assert (np.diff(values) >= 0).all()
    assert_close(values, np.linalg.eigvalsh(whole), dtype)


def assert_svd(a: Array, u: Array, s: Array, vt: Array, dtype: torch.dtype) -> None:
    k = s.shape[-1]
    assert_rebuilt((u[..., :k] * s[..., None, :]) @ vt[..., :k, :], a, dtype)
    assert_orthonormal(u, dtype)
    assert_orthonormal(np.swapaxes(vt, -1, -2), dtype)
    assert (np.diff(s) <= 0).all() and (s >= 0).all()
    assert_close(s, np.linalg.svd(a, compute_uv=False), dtype)


def special(n: int, dtype: torch.dtype) -> torch.Tensor:
    """Zeros, equal values, a matrix of rank one, and a graded one."""
    eye = torch.eye(n, dtype=torch.float64)
    ones = torch.ones(n, n, dtype=torch.float64)
    graded = torch.diag(10.0 ** -torch.arange(n, dtype=torch.float64))
    turned = eye.flip(0)
    return torch.stack([0 * eye, eye, -3 * eye, ones, graded, turned]).to(dtype)


SQUARES = (
    lambda d: normal(3, 1, 1, dtype=d),
    lambda d: normal(19, 4, 4, dtype=d),
    lambda d: special(5, d),
    lambda d: special(20, d),
    lambda d: special(40, d),
    lambda d: normal(2, 50, 50, dtype=d),
)


def assert_factors(
    path: Path,
    factors: Callable[[torch.Tensor], Any],
    matrices: list[torch.Tensor],
    check: Callable[..., None],
    levels: Sequence[str],
) -> None:
    """What `factors` gives of each matrix passes `check`, on all of the levels."""

    def function(*every: torch.Tensor) -> Any:
        return [part for a in every for part in factors(a)]

    count = len(factors(matrices[0]))
    package = packaged(path / "m.pkg", function, *matrices, levels=levels)
    for isa in levels:
        made = as_list(aot_runtime.load(package, isa=isa)(*matrices))
        for k, a in enumerate(matrices):
            check(a.double().numpy(), *made[count * k : count * (k + 1)], a.dtype)


@pytest.mark.parametrize("dtype", BOUND, ids=str)
def test_eigenvectors_rebuild_their_matrices(
    tmp_path: Path, levels: tuple[str, ...], some: Part, dtype: torch.dtype
) -> None:
    matrices = [make(dtype) for make in some(SQUARES, 3)]
    assert_factors(tmp_path, linalg.eigh, matrices, assert_eigen, levels)


@pytest.mark.parametrize("dtype", BOUND, ids=str)
def test_singular_vectors_rebuild_their_matrices(
    tmp_path: Path, levels: tuple[str, ...], some: Part, dtype: torch.dtype
) -> None:
    rectangles = [normal(4, 5, 3, dtype=dtype), normal(35, 60, dtype=dtype)]
    matrices = some([*(make(dtype) for make in SQUARES), *rectangles], 3)
    assert_factors(tmp_path, partial(linalg.svd, full_matrices=False), matrices, assert_svd, levels)


def _of_values(values: torch.Tensor, dtype: torch.dtype, scale: torch.Tensor) -> torch.Tensor:
    """Symmetric matrices of these eigenvalues, rows and columns times `scale`."""
    n = len(values)
    q = linalg.qr(normal(n, n, dtype=torch.float64)).Q
    return ((scale[:, None] * scale) * ((q * values) @ q.mT)).to(dtype)


def hostile(n: int, dtype: torch.dtype) -> torch.Tensor:
    """Clusters, ranks, graded matrices, and numbers whose squares are none."""
    one, steps = torch.ones(n, dtype=torch.float64), torch.arange(n, dtype=torch.float64)
    beside = torch.diag(one[1:], 1)
    far = 1e200 if dtype == torch.float64 else 1e30
    whole = normal(n, n, dtype=torch.float64)
    whole = (whole + whole.mT) / 2
    made = [
        _of_values(1 + 1e-9 * steps, dtype, one),
        _of_values(torch.where(steps < n // 2, 1.0, 2.0).double(), dtype, one),
        _of_values(torch.where(steps < 3, 1.0, 0.0).double(), dtype, one),
        _of_values(10.0 ** (-15 * steps / n), dtype, one),
        _of_values(steps - n / 2, dtype, 10.0 ** (-12 * steps / n)),
        torch.diag((steps - n // 2).abs()) + beside + beside.mT,  # Wilkinson's
        torch.ones(n, n),
        far * whole,
        whole / far,
    ]
    return torch.stack([x.to(dtype) for x in made])


def in_units(*made: Array, of: Array) -> list[Array]:
    """Numbers as parts of the greatest one of each matrix, in float64."""
    unit = np.abs(of).max((-2, -1)).astype(np.longdouble)
    return [(x / unit.reshape((-1, *[1] * (x.ndim - 1)))).astype("f8") for x in made]


@pytest.mark.parametrize("dtype", BOUND, ids=str)
def test_hostile_spectra(tmp_path: Path, levels: tuple[str, ...], dtype: torch.dtype) -> None:
    a = hostile(70, dtype)
    path = packaged(
        tmp_path / "m.pkg", lambda a: [*linalg.eigh(a), linalg.eigvalsh(a)], a, levels=levels
    )
    for isa in levels:
        w, v, alone = as_list(aot_runtime.load(path, isa=isa)(a))
        whole, w, alone = in_units(a.numpy(), w, alone, of=a.numpy())
        assert_eigen(whole, w, v, dtype)
        assert_close(alone, w, dtype)


@pytest.mark.parametrize("dtype", BOUND, ids=str)
def test_hostile_singular_values(
    tmp_path: Path, levels: tuple[str, ...], dtype: torch.dtype
) -> None:
    a = hostile(70, dtype)[..., :45]

    def function(a: torch.Tensor) -> Any:
        return [*linalg.svd(a, full_matrices=False), linalg.svdvals(a)]

    path = packaged(tmp_path / "m.pkg", function, a, levels=levels)
    for isa in levels:
        u, s, vt, alone = as_list(aot_runtime.load(path, isa=isa)(a))
        whole, s, alone = in_units(a.numpy(), s, alone, of=a.numpy())
        assert_svd(whole, u, s, vt, dtype)
        assert_close(alone, s, dtype)


def test_what_is_no_matrix_has_no_spectrum(tmp_path: Path) -> None:
    def function(a: torch.Tensor) -> Any:
        return [*linalg.eigh(a), *linalg.svd(a)]

    a = normal(4, 40, 40)
    model = aot_runtime.load(packaged(tmp_path / "m.pkg", function, a))
    good = as_list(model(a))
    a[1, 30, 3], a[2, 39, 0], a[3, 7, 7] = float("nan"), float("inf"), float("-inf")
    for found, wanted in zip(as_list(model(a)), good, strict=True):
        assert np.isnan(found[1:]).all()
        np.testing.assert_array_equal(found[0], wanted[0])


def test_matrices_that_lie_anywhere_have_the_same_spectra(tmp_path: Path) -> None:
    def function(a: torch.Tensor) -> Any:
        lies = a.permute(2, 0, 1)[::2, 3:43, 1:41]
        return [*linalg.eigh(lies), *linalg.eigh(lies.mT, UPLO="U"), *linalg.svd(lies.mT)]

    a = normal(45, 44, 4, dtype=torch.float64)
    model = aot_runtime.load(packaged(tmp_path / "m.pkg", function, a))
    w, v, again, turned, u, s, vt = as_list(model(a))
    lies = a.permute(2, 0, 1)[::2, 3:43, 1:41].numpy()
    assert_eigen(lies, w, v, torch.float64)
    np.testing.assert_array_equal(again, w)
    np.testing.assert_array_equal(turned, v)
    assert_svd(np.swapaxes(lies, -1, -2), u, s, vt, torch.float64)


@pytest.mark.parametrize("dtype", BOUND, ids=str)
def test_reflections_rebuild_their_matrices(
    tmp_path: Path, levels: tuple[str, ...], some: Part, dtype: torch.dtype
) -> None:
    def assert_qr(a: Array, q: Array, r: Array, dtype: torch.dtype) -> None:
        assert_close(q @ r, a, dtype)
        assert_orthonormal(q, dtype)
        np.testing.assert_array_equal(r, np.triu(r))

    shapes = ((19, 7, 7), (3, 20, 33), (2, 45, 37), (37, 70), (130, 90))
    matrices = [normal(*shape, dtype=dtype) for shape in some(shapes, 3)]
    assert_factors(tmp_path, partial(linalg.qr, mode="complete"), matrices, assert_qr, levels)


def _gap(found: Array, wanted: Array) -> float:
    return float(np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-30))


GENERAL = (
    torch.complex(normal(2, 3, 3), normal(2, 3, 3).mT).to(torch.complex128),
    torch.complex(special(5, torch.float64), special(5, torch.float64).triu(1).mT),
    torch.complex(normal(40, 40, dtype=torch.float64), normal(40, 40, dtype=torch.float64).mT),
)


def test_complex_vectors_rebuild_their_matrices(tmp_path: Path, some: Part) -> None:
    matrices = some(GENERAL, 2)

    def function(*every: torch.Tensor) -> Any:
        return [x for a in every for x in (*linalg.svd(a), *linalg.eigh(a))]

    model = aot_runtime.load(packaged(tmp_path / "m.pkg", function, *matrices))
    made = [np.asarray(x) for x in model(*matrices)]
    for k, a in enumerate(map(np.asarray, matrices)):
        u, s, vh, values, v = made[5 * k : 5 * k + 5]
        eye, lower = np.eye(a.shape[-1]), np.tril(a, -1)
        whole = lower + np.swapaxes(lower, -1, -2).conj() + eye * a.real
        assert _gap(u * s[..., None, :] @ vh, a) < 1e-13
        assert _gap(v * values[..., None, :] @ np.swapaxes(v, -1, -2).conj(), whole) < 1e-13
        for unitary in (u, vh, v):
            assert _gap(np.swapaxes(unitary, -1, -2).conj() @ unitary, eye) < 1e-13


@pytest.mark.parametrize("real", [True, False], ids=["real", "complex"])
def test_eigenvectors_of_any_matrices(tmp_path: Path, some: Part, real: bool) -> None:
    scale = 10.0 ** torch.arange(-6, 6, dtype=torch.float64)
    badly_scaled = (normal(12, 12, dtype=torch.float64) * scale).mT / scale
    every = [a.real.clone() if real else a for a in GENERAL]
    every = some([*every, badly_scaled] if real else every, 2)

    def function(*every: torch.Tensor) -> Any:
        return [x for a in every for x in linalg.eig(a)]

    model = aot_runtime.load(packaged(tmp_path / "m.pkg", function, *every))
    made = [np.asarray(x) for x in model(*every)]
    for k, a in enumerate(map(np.asarray, every)):
        values, v = made[2 * k : 2 * k + 2]
        assert _gap(np.linalg.norm(v, axis=-2), np.ones(v.shape[:-2] + v.shape[-1:])) < 1e-13
        assert np.abs(a @ v - v * values[..., None, :]).max() <= 1e-12 * np.abs(a).max()


@pytest.mark.parametrize("n", [4, 80])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_a_matrix_that_is_none_has_no_eigenvalues(
    tmp_path: Path, n: int, dtype: torch.dtype
) -> None:
    a = normal(2, n, n).to(dtype)
    model = aot_runtime.load(packaged(tmp_path / "m.pkg", linalg.eigvals, a))
    for none in (float("nan"), float("inf")):
        a[1, 2, 3] = none
        found = np.asarray(model(a))
        assert np.isnan(found[1]).all() and np.isfinite(found[0]).all()


def test_complex_factors_of_large_matrices(tmp_path: Path, a_level: tuple[str, ...]) -> None:
    n, k = 70, 45
    turned = torch.exp(1j * torch.arange(n, dtype=torch.float64))
    a = turned[:, None] * hostile(n, torch.float64) * turned.conj()
    a[:-2] += 1j * 1e-3 * (hostile(n, torch.float64)[:-2].triu(1))

    def function(a: torch.Tensor) -> Any:
        tall, wide = a[..., :k], a[..., :k, :]
        svd = partial(linalg.svd, full_matrices=False)
        values = [linalg.eigvalsh(a), linalg.svdvals(tall)]
        return [*linalg.eigh(a), *svd(tall), *svd(wide), *values, *linalg.qr(tall)]

    path = packaged(tmp_path / "m.pkg", function, a, levels=a_level)
    unit = a.abs().amax((-2, -1)).numpy()[:, None, None]
    whole, lower = a.numpy() / unit, np.tril(a.numpy() / unit, -1)
    symmetric = lower + np.swapaxes(lower, -1, -2).conj() + np.eye(n) * whole.real
    for isa in a_level:
        made = [np.asarray(x) for x in aot_runtime.load(path, isa=isa)(a)]
        w, v, u, s, vh, wide_u, wide_s, wide_vh, w_alone, s_alone, q, r = made
        assert (
            _gap(v * (w / unit[..., 0])[:, None] @ np.swapaxes(v, -1, -2).conj(), symmetric) < 1e-13
        )
        assert _gap(u * (s / unit[..., 0])[:, None] @ vh, whole[..., :k]) < 1e-13
        wide = wide_u * (wide_s / unit[..., 0])[:, None] @ wide_vh
        assert _gap(wide, whole[:, :k]) < 1e-13 and _gap(q @ (r / unit), whole[..., :k]) < 1e-13
        for columns in (v, u, np.swapaxes(vh, -1, -2), np.swapaxes(wide_vh, -1, -2), q):
            found = np.swapaxes(columns, -1, -2).conj() @ columns
            assert _gap(found, np.broadcast_to(np.eye(found.shape[-1]), found.shape)) < 1e-13
        np.testing.assert_allclose(w_alone / unit[..., 0], w / unit[..., 0], atol=1e-12)
        np.testing.assert_allclose(s_alone / unit[..., 0], s / unit[..., 0], atol=1e-12)


def test_matrices_whose_rest_is_of_the_least_numbers_have_singular_values(tmp_path: Path) -> None:
    a = torch.full((202, 202), 1 + 2j)
    (found,) = as_list([aot_runtime.load(packaged(tmp_path / "m.pkg", linalg.svdvals, a))(a)])
    assert_close(found, linalg.svdvals(a).double().numpy(), torch.float32)


HEADERS = Path(aot.__file__).parent / "backends/cpp/include/aot/linalg"


@pytest.mark.parametrize(
    ("name", "header", "value"),
    [
        ("kReflections", "large_qr", template_library._REFLECTIONS),
        ("kBlock", "tridiagonal", template_library._BLOCK),
        ("kTurned", "turn_back", template_library._TURNED),
        ("kPending", "hessenberg", template_library._PENDING),
        ("kMostShifts", "sweep", template_library._SHIFTS),
        ("kStrip", "sweep", template_library._STRIP),
        ("kWindow", "multishift", template_library._WINDOW),
        ("kAlone", "large_eig", template_library._EIG_ALONE),
        ("kExchanged", "lstsq", template_library._EXCHANGED),
        ("kFew", "triangular", template_library._FEW_SIDES),
        ("kSquarings", "squared", SQUARINGS),
        ("kSquarings", "squared", _DOUBLINGS),
        ("kSmall", "lanes", template_library.SMALL),
        ("kDepth", "product", template_library._DEPTH),
    ],
)
def test_workspaces_count_what_headers_take(name: str, header: str, value: int) -> None:
    assert f"int64_t {name} = {value};" in (HEADERS / f"{header}.h").read_text()


def test_what_is_made_of_singular_values(tmp_path: Path) -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> Any:
        return [
            linalg.svdvals(a),
            linalg.eigvalsh(b),
            linalg.matrix_norm(a, "nuc"),
            linalg.matrix_norm(a, 2),
            linalg.cond(b),
            linalg.matrix_rank(b),
            linalg.pinv(a),
            linalg.pinv(b @ b.mT, hermitian=True),
        ]

    a, b = normal(3, 5, 4, dtype=torch.float64), normal(2, 6, 6, dtype=torch.float64)
    b = b + 6 * torch.eye(6, dtype=torch.float64)
    path = packaged(tmp_path / "m.pkg", function, a, b)
    for found, wanted in zip(aot_runtime.load(path)(a, b), function(a, b), strict=True):
        np.testing.assert_allclose(np.asarray(found), wanted.numpy(), rtol=1e-11, atol=1e-12)


def test_vectors_of_full_matrices(tmp_path: Path, some: Part) -> None:
    shapes = some(((6, 4), (2, 3, 5), (40, 36)), 2)

    def function(*matrices: torch.Tensor) -> Any:
        return [part for a in matrices for part in linalg.svd(a)]

    matrices = [normal(*shape, dtype=torch.float64) for shape in shapes]
    made = as_list(aot_runtime.load(packaged(tmp_path / "m.pkg", function, *matrices))(*matrices))
    for k, a in enumerate(matrices):
        u, s, vt = made[3 * k : 3 * k + 3]
        assert u.shape[-1] == a.shape[-2] and vt.shape[-1] == a.shape[-1]
        assert_svd(a.numpy(), u, s, vt, torch.float64)


# ---- sizes and threads ----


def _factors(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    square = a.mT @ a + torch.eye(a.shape[-1])
    q, r = linalg.qr(a)
    return [linalg.cholesky(square), linalg.solve(square, b), linalg.inv(square), q @ r]


def test_dynamic_sizes_and_threads(tmp_path: Path) -> None:
    batch, n, columns = Dim("batch", min=1), Dim("n", min=2), Dim("columns", min=1)
    rows = Dim("rows", min=2)
    example = (normal(3, 9, 5), normal(3, 5, 2))
    shapes = ((({0: batch, 1: rows, 2: n}), {0: batch, 1: n, 2: columns}),)
    path = packaged(tmp_path / "m.pkg", _factors, *example, shapes=shapes)
    for threads in (1, 3):
        model = aot_runtime.load(path, num_threads=threads)
        for size in ((1, 2, 2, 1), (50, 8, 3, 4), (2, 70, 40, 5), (17, 34, 33, 40)):
            a = normal(*size[:3])
            b = normal(size[0], size[2], size[3])
            made = as_list(model(a, b))
            for found, wanted in zip(made, _factors(a.double(), b.double()), strict=True):
                assert_close(found / 100, wanted.numpy() / 100, torch.float32)


@pytest.mark.parametrize("shape", [(0, 4, 4), (2, 0, 0), (0, 0)], ids=str)
def test_nothing_to_compute(tmp_path: Path, shape: tuple[int, ...]) -> None:
    def function(a: torch.Tensor) -> Any:
        return [
            linalg.cholesky(a),
            linalg.inv(a),
            linalg.det(a),
            linalg.solve(a, a),
            linalg.eigh(a)[0],
            linalg.svdvals(a),
            linalg.qr(a)[0],
        ]

    a = torch.zeros(shape)
    made = aot_runtime.load(packaged(tmp_path / "m.pkg", function, a))(a)
    for found, wanted in zip(made, function(a), strict=True):
        np.testing.assert_array_equal(np.asarray(found), wanted.numpy())


# ---- matrices that have no factors ----


INDEFINITE = torch.stack([torch.eye(3), torch.diag(torch.tensor([1.0, -2.0, 3.0]))])
SINGULAR = torch.stack([torch.eye(3), torch.ones(3, 3)])


@pytest.mark.parametrize(
    ("operator", "matrices", "message"),
    [
        (linalg.cholesky, INDEFINITE, "linalg.cholesky: the input is not positive-definite"),
        (linalg.inv, SINGULAR, "linalg.inv: the input matrix is singular"),
        (lambda a: linalg.solve(a, a), SINGULAR, "linalg.solve: the input matrix is singular"),
        (
            lambda a: linalg.lu_factor(a)[0],
            SINGULAR,
            "torch.linalg.lu_factor: the input matrix is singular",
        ),
    ],
    ids=["cholesky", "inv", "solve", "lu_factor"],
)
def test_where_eager_raises_a_run_fails(
    tmp_path: Path, operator: Callable[..., torch.Tensor], matrices: torch.Tensor, message: str
) -> None:
    good = matrices[:1].expand(2, 3, 3).contiguous()
    model = aot_runtime.load(packaged(tmp_path / "m.pkg", operator, good))
    np.testing.assert_array_equal(np.asarray(model(good)), operator(good).numpy())
    with pytest.raises(RuntimeError):
        operator(matrices)
    with pytest.raises(aot_runtime.InvalidArgument, match=message):
        model(matrices)


@pytest.mark.parametrize("n", [3, 40])
def test_info_says_which_pivot_is_missing(tmp_path: Path, levels: tuple[str, ...], n: int) -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> Any:
        factors = linalg.lu_factor_ex(b)
        inverse, solved = linalg.inv_ex(b).info, linalg.solve_ex(b, b).info
        return [linalg.cholesky_ex(a).info, factors.info, inverse, solved, linalg.det(b)]

    definite, singular = torch.eye(n).repeat(4, 1, 1), torch.eye(n).repeat(4, 1, 1)
    definite[1, 2, 2], definite[2, 0, 0], definite[3, n - 1, n - 1] = -1.0, float("nan"), 0.0
    singular[1, 1, 1], singular[2, 0, 0], singular[3, n - 1, n - 1] = 0.0, 0.0, 0.0
    path = packaged(tmp_path / "m.pkg", function, definite, singular, levels=levels)
    for isa in levels:
        made = aot_runtime.load(path, isa=isa)(definite, singular)
        for found, wanted in zip(made, function(definite, singular), strict=True):
            np.testing.assert_array_equal(np.asarray(found), wanted.numpy())


def test_nan_stays(tmp_path: Path) -> None:
    def function(a: torch.Tensor) -> Any:
        return [linalg.inv_ex(a)[0], linalg.det(a), linalg.eigvalsh(a), linalg.svdvals(a)]

    a = torch.full((2, 3, 3), float("nan"))
    made = aot_runtime.load(packaged(tmp_path / "m.pkg", function, a))(a)
    assert all(np.isnan(np.asarray(x)).all() for x in made)


@pytest.mark.parametrize("parts", [1, 2], ids=("real", "complex"))
@pytest.mark.parametrize(("n", "r"), [(2, 4), (5, 1), (32, 32)])
def test_systems_side_by_side_have_room_for_what_is_right_of_them(
    parts: int, n: int, r: int
) -> None:
    room = ROUTINE_KERNELS["linalg", "complex_solve" if parts == 2 else "solve"].workspace.lanes
    assert room is not None
    sizes = Sizes(*map(integer, (parts * n, n, r)))
    factors = parts * n * n + n + n + 1  # pivots, the order of the rows, info
    assert int(room(sizes)) >= factors + parts * n * r


@pytest.mark.parametrize(
    ("size", "columns", "dtype", "alone"),
    [
        (16, 4, torch.float64, True),
        (16, 5, torch.float64, False),
        (7, 4, torch.float64, False),
        (32, 4, torch.float64, True),
        (33, 4, torch.float64, False),
        (16, 4, torch.float32, False),
        (16, 4, torch.complex128, True),
        (22, 4, torch.complex128, True),
        (23, 4, torch.complex128, False),
    ],
    ids=str,
)
def test_triangles_of_few_right_hand_sides_are_solved_where_they_lie(
    size: int, columns: int, dtype: torch.dtype, alone: bool
) -> None:
    wide = torch.complex128 if dtype.is_complex else torch.float64
    t = (torch.randn(9, size, size, dtype=wide) + 9 * torch.eye(size)).to(dtype)
    b = torch.randn(9, size, columns, dtype=wide).to(dtype)

    def function(t: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return linalg.solve_triangular(t, b, upper=False)

    graph, _ = ingest(capture_module(Calls(function), (t, b)))
    (call,) = calls_of(scheduled(graph, CppBackend().machine(ALL_CPU)))
    assert isinstance(call, LibraryCall)
    own = ROUTINE_KERNELS[call.routine.library.name, call.routine.name]
    real = FLOAT32 if dtype == torch.float32 else FLOAT64
    assert ("alone" in template_library.alone_if_few(call, own, real).options) == alone
