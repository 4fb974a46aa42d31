"""Template kernels, built by hand for tests."""

from __future__ import annotations

from aot.ir.kernels import Stage, TemplateKernel
from aot.ir.loops import reads
from aot.ir.nests import Axis, View
from aot.ir.origin import NO_ORIGIN
from aot.symbolic import as_expr, var


def view(name, sizes, index=lambda *v: v):
    made = tuple(Axis(var(f"v{k}"), as_expr(s)) for k, s in enumerate(sizes))
    return View(name, made, tuple(index(*(a.symbol for a in made))))


def template(maker, kind, operands, out, nests, **attrs):
    call = kind("t", out, NO_ORIGIN, **operands, **attrs)
    read = [v.buffer for v in operands.values()]
    read += [r for n in nests for r in reads(n) if r != out.buffer]
    inner = nests[0].axes if nests else ()
    stages = (Stage(inner, (), inner, inner[-1], tuple(nests)),) if nests else ()
    written = [s.buffer for n in nests for s in n.stores] or [out.buffer]
    local = (out.buffer,) if nests else ()
    name = f"k{len(maker.kernels)}"
    maker.kernels.append(
        TemplateKernel(name, call, stages, local, tuple(dict.fromkeys(read)), tuple(written))
    )
