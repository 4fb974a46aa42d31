"""Dense linear algebra by eigenvalues of symmetric matrices and singular values."""

from __future__ import annotations

from aot.ir.templates.linalg import ROUTINES
from aot.lowering.builder import Tensor
from aot.lowering.library import Matrices, call_routine
from aot.lowering.linalg import mirrored, zeros
from aot.lowering.orthogonal import completed
from aot.lowering.registry import Call, CannotLower, SeveralResults
from aot.lowering.rows import REGISTRY


@REGISTRY.row("aten._linalg_eigh.default")
def eigh(call: Call, a: Tensor, UPLO: str = "L", compute_v: bool = True) -> SeveralResults:
    """(eigenvalues in ascending order, eigenvectors as columns) of one triangle."""
    matrices = Matrices(a, turned=UPLO.upper() == "U")
    if not compute_v or call.op.outputs[1] is None:
        return call_routine(ROUTINES["eigvalsh"], matrices).part("values"), zeros(a)
    found = call_routine(ROUTINES["eigh"], matrices)
    return found.part("values"), found.part("vectors")


def is_wide(a: Tensor) -> bool:
    """Whether a has more columns than rows.

    Raises:
        CannotLower: It is so for some sizes only.
    """
    m, n = a.shape[-2:]
    if a.builder.ranges.nonnegative(m - n):
        return False
    if a.builder.ranges.nonnegative(n - m):
        return True
    raise CannotLower(
        "which of a matrix's sizes is the lesser is not known: make one of them static"
    )


@REGISTRY.row("aten._linalg_svd.default")
def svd(
    call: Call,
    a: Tensor,
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    driver: str | None = None,
) -> SeveralResults:
    """(U, singular values in descending order, V^T); `driver` chooses among algorithms of GPUs."""
    wide = is_wide(a)
    matrices = Matrices(a, turned=wide)
    u_name, _, vt_name = call.op.outputs
    if not compute_uv or (u_name is None and vt_name is None):
        values = call_routine(ROUTINES["svdvals"], matrices).part("values")
        return zeros(a), values, zeros(a)
    found = call_routine(ROUTINES["svd"], matrices)
    tall = mirrored(found.part("ut"))
    if full_matrices:
        tall = completed(tall)
    square = found.part("vt")
    values = found.part("values")
    return (mirrored(square), values, mirrored(tall)) if wide else (tall, values, square)
