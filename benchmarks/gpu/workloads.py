"""GPU workloads: name -> (group, factory of (module, args), tolerance)."""

import torch, torch.nn as nn, torch.nn.functional as F

D = "cuda"  # set to "cpu" to package without a GPU, before a factory is called
REG = {}


def workload(group, tol=1e-3):
    def deco(fn):
        REG[fn.__name__] = (group, fn, tol)
        return fn

    return deco


def add(name, group, fn, tol=1e-3):
    REG[name] = (group, fn, tol)


class Lambda(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *a):
        return self.f(*a)


# ---- A: the seeds' suite -------------------------------------------------
def up(shape, out, mode, aa, cl, ac=False):
    def make():
        x = torch.rand(*shape, device=D)
        if cl:
            x = x.contiguous(memory_format=torch.channels_last)
        f = Lambda(lambda x: F.interpolate(x, size=out, mode=mode, antialias=aa, align_corners=ac))
        return f, (x,)

    return make


for cl in (False, True):
    t = "cl" if cl else "cf"
    for shape, out in [
        ((1, 3, 500, 400), (256, 256)),
        ((4, 3, 500, 400), (256, 256)),
        ((4, 3, 1200, 1300), (200, 300)),
        ((4, 3, 300, 400), (600, 700)),
        ((4, 3, 2345, 2456), (1234, 1345)),
        ((4, 3, 1234, 1345), (2345, 2456)),
        ((4, 3, 2345, 2456), (120, 200)),
    ]:
        add(
            f"aa_b{shape[0]}_{shape[2]}x{shape[3]}_{out[0]}x{out[1]}_{t}",
            "A",
            up(shape, out, "bilinear", True, cl),
            1e-3,
        )
    for shape, out in [
        ((1, 3, 500, 400), (256, 256)),
        ((1, 3, 500, 400), (1024, 1024)),
        ((4, 3, 1234, 1345), (2345, 2456)),
    ]:
        add(
            f"bicubic_b{shape[0]}_{shape[2]}x{shape[3]}_{out[0]}x{out[1]}_{t}",
            "A",
            up(shape, out, "bicubic", False, cl),
            1e-3,
        )


# ---- B: fusion -------------------------------------------------------------
@workload("B", 2e-2)
def gelu_bias_res_ln():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.b = nn.Parameter(torch.randn(4096))
            s.ln = nn.LayerNorm(4096)

        def forward(s, x, r):
            return s.ln(F.gelu(x + s.b) + r)

    return M().to(D, torch.bfloat16), tuple(
        torch.randn(8192, 4096, device=D, dtype=torch.bfloat16) for _ in range(2)
    )


@workload("B", 2e-2)
def masked_softmax():
    return Lambda(lambda x, m: torch.softmax(x * 0.125 + m, -1)), (
        torch.randn(16, 12, 1024, 1024, device=D, dtype=torch.float16),
        torch.randn(16, 1, 1024, 1024, device=D, dtype=torch.float16),
    )


@workload("B", 2e-2)
def rmsnorm_swiglu():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.w = nn.Parameter(torch.randn(8192))

        def forward(s, x):
            a, b = (
                x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype) * s.w
            ).chunk(2, -1)
            return F.silu(a) * b

    return M().to(D, torch.bfloat16), (torch.randn(8192, 8192, device=D, dtype=torch.bfloat16),)


@workload("B")
def add_sum():
    return Lambda(lambda a, b: (a + b).sum(1)), (
        torch.randn(8192, 8192, device=D),
        torch.randn(8192, 8192, device=D),
    )


@workload("B", 1e-2)
def sum_both():
    return Lambda(lambda x: (x.sum(0), x.sum(1))), (torch.randn(8192, 8192, device=D),)


@workload("B", 1e-2)
def cross_entropy():
    return Lambda(lambda x, t: F.cross_entropy(x.float(), t)), (
        torch.randn(8192, 50304, device=D, dtype=torch.bfloat16),
        torch.randint(0, 50304, (8192,), device=D),
    )


@workload("B", 1e-2)
def full_sum():
    return Lambda(lambda x: (x * x).sum()), (torch.randn(1 << 27, device=D),)


@workload("B", 1e-2)
def cumsum():
    return Lambda(lambda x: torch.cumsum(x * 2, -1)), (torch.rand(4096, 8192, device=D),)


@workload("B")
def sort():
    return Lambda(lambda x: torch.sort(x, -1)), (torch.rand(4096, 1024, device=D),)


@workload("B")
def pw_chain():
    def f(x):
        for i in range(10):
            x = torch.sin(x) * 0.9 + torch.tanh(x) - x * 0.01
        return x

    return Lambda(f), (torch.randn(1 << 26, device=D),)


@workload("B")
def transpose_add():
    return Lambda(lambda a, b: a.t() + b), (
        torch.randn(8192, 8192, device=D),
        torch.randn(8192, 8192, device=D),
    )


@workload("B")
def cat_pw():
    return Lambda(
        lambda a, b, c: torch.relu(torch.cat([a[:, :1000], b * 2, c[:, 5:]], 1)) + 1
    ), tuple(torch.randn(4096, 4096, device=D) for _ in range(3))


@workload("B")
def tiny_ops():
    def f(x, y):
        for i in range(20):
            x = (x @ y).relu()
            y = y + 0.001 * i
        return x

    return Lambda(f), (torch.randn(16, 64, device=D), torch.randn(64, 64, device=D) * 0.1)


# ---- C: matmul, attention, networks ---------------------------------------
def mm(M, N, K, epi=None):
    def make():
        class P(nn.Module):
            def __init__(s):
                super().__init__()
                s.l = nn.Linear(K, N)

            def forward(s, x):
                y = s.l(x)
                return epi(y) if epi else y

        return P().to(D, torch.bfloat16), (torch.randn(M, K, device=D, dtype=torch.bfloat16),)

    return make


add("linear_4096", "C", mm(4096, 4096, 4096), 3e-2)
add("linear_gelu_4096", "C", mm(4096, 4096, 4096, F.gelu), 3e-2)
add("linear_1x4096", "C", mm(1, 4096, 4096), 3e-2)
add("linear_16x14336", "C", mm(16, 14336, 4096), 3e-2)


@workload("C", 3e-2)
def sdpa_causal():
    return Lambda(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)), tuple(
        torch.randn(4, 16, 2048, 128, device=D, dtype=torch.bfloat16) for _ in range(3)
    )


@workload("C", 3e-2)
def mlp_b1():
    return nn.Sequential(
        nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 4096), nn.GELU(), nn.Linear(4096, 1024)
    ).to(D, torch.bfloat16), (torch.randn(1, 1024, device=D, dtype=torch.bfloat16),)


def resnet(b):
    def make():
        import torchvision

        m = (
            torchvision.models.resnet50()
            .eval()
            .to(D, torch.float16)
            .to(memory_format=torch.channels_last)
        )
        return m, (
            torch.randn(b, 3, 224, 224, device=D, dtype=torch.float16).contiguous(
                memory_format=torch.channels_last
            ),
        )

    return make


add("resnet50_b1", "C", resnet(1), 5e-2)
add("resnet50_b32", "C", resnet(32), 5e-2)


def bert(b, s):
    def make():
        from transformers import BertConfig, BertModel

        m = BertModel(BertConfig(attn_implementation="sdpa")).eval().to(D, torch.bfloat16)

        class W(nn.Module):
            def __init__(self):
                super().__init__()
                self.m = m

            def forward(self, ids, mask):
                return self.m(input_ids=ids, attention_mask=mask).last_hidden_state

        return W(), (
            torch.randint(0, 30000, (b, s), device=D),
            torch.ones(b, s, dtype=torch.long, device=D),
        )

    return make


add("bert_b1_s128", "C", bert(1, 128), 8e-2)
add("bert_b32_s512", "C", bert(32, 512), 8e-2)


class RMS(nn.Module):
    def __init__(s, d):
        super().__init__()
        s.w = nn.Parameter(torch.ones(d))

    def forward(s, x):
        return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(
            x.dtype
        ) * s.w


class LlamaBlock(nn.Module):
    def __init__(s, d, h, kv, ff):
        super().__init__()
        s.h, s.kv, s.dh = h, kv, d // h
        s.n1, s.n2 = RMS(d), RMS(d)
        s.q, s.k, s.v, s.o = (
            nn.Linear(d, d, False),
            nn.Linear(d, kv * s.dh, False),
            nn.Linear(d, kv * s.dh, False),
            nn.Linear(d, d, False),
        )
        s.g, s.u, s.dn = nn.Linear(d, ff, False), nn.Linear(d, ff, False), nn.Linear(ff, d, False)

    def rope(s, x, c, i):
        a, b = x.chunk(2, -1)
        return torch.cat([a * c - b * i, b * c + a * i], -1)

    def forward(s, x, c, i, kc, vc, pos, mask):
        B, T, _ = x.shape
        y = s.n1(x)
        q = s.q(y).view(B, T, s.h, s.dh).transpose(1, 2)
        k = s.k(y).view(B, T, s.kv, s.dh).transpose(1, 2)
        v = s.v(y).view(B, T, s.kv, s.dh).transpose(1, 2)
        q, k = s.rope(q, c, i), s.rope(k, c, i)
        kc = kc.index_copy(2, pos, k)
        vc = vc.index_copy(2, pos, v)
        a = F.scaled_dot_product_attention(q, kc, vc, attn_mask=mask, enable_gqa=True)
        x = x + s.o(a.transpose(1, 2).reshape(B, T, -1))
        y = s.n2(x)
        return x + s.dn(F.silu(s.g(y)) * s.u(y)), kc, vc


def llama(T, ctx):
    def make():
        d, h, kv, ff, L = 2048, 32, 8, 5632, 8

        class M(nn.Module):
            def __init__(s):
                super().__init__()
                s.b = nn.ModuleList(LlamaBlock(d, h, kv, ff) for _ in range(L))
                s.e = nn.Embedding(32000, d)
                s.head = nn.Linear(d, 32000, False)
                s.n = RMS(d)

            def forward(s, ids, c, i, pos, mask, kcs, vcs):
                x = s.e(ids)
                ks, vs = [], []
                for j, b in enumerate(s.b):
                    x, k, v = b(x, c, i, kcs[j], vcs[j], pos, mask)
                    ks.append(k)
                    vs.append(v)
                return s.head(s.n(x[:, -1:])), ks, vs

        bf = torch.bfloat16
        dh = d // h
        kc = [torch.zeros(1, kv, ctx, dh, device=D, dtype=bf) for _ in range(L)]
        pos = torch.arange(ctx - T, ctx, device=D) if T == 1 else torch.arange(T, device=D)
        mask = torch.zeros(T, ctx, device=D, dtype=bf)
        return M().to(D, bf), (
            torch.randint(0, 32000, (1, T), device=D),
            torch.randn(T, dh // 2, device=D, dtype=bf),
            torch.randn(T, dh // 2, device=D, dtype=bf),
            pos,
            mask,
            kc,
            [x.clone() for x in kc],
        )

    return make


add("llama_decode_ctx1024", "C", llama(1, 1024), 1e-1)
add("llama_prefill_512", "C", llama(512, 1024), 1e-1)


@workload("C", 5e-2)
def vit_b16_b32():
    import timm

    return timm.create_model("vit_base_patch16_224").eval().to(D, torch.float16), (
        torch.randn(32, 3, 224, 224, device=D, dtype=torch.float16),
    )


@workload("C", 5e-2)
def unet():
    class B(nn.Module):
        def __init__(s, i, o):
            super().__init__()
            s.c1, s.c2, s.n1, s.n2 = (
                nn.Conv2d(i, o, 3, 1, 1),
                nn.Conv2d(o, o, 3, 1, 1),
                nn.GroupNorm(8, o),
                nn.GroupNorm(8, o),
            )
            s.sk = nn.Conv2d(i, o, 1)

        def forward(s, x):
            return s.sk(x) + F.silu(s.n2(s.c2(F.silu(s.n1(s.c1(x))))))

    class U(nn.Module):
        def __init__(s):
            super().__init__()
            s.d1, s.d2, s.m, s.u2, s.u1, s.o = (
                B(4, 64),
                B(64, 128),
                B(128, 256),
                B(384, 128),
                B(192, 64),
                nn.Conv2d(64, 4, 1),
            )

        def forward(s, x):
            a = s.d1(x)
            b = s.d2(F.avg_pool2d(a, 2))
            m = s.m(F.avg_pool2d(b, 2))
            y = s.u2(torch.cat([F.interpolate(m, scale_factor=2.0), b], 1))
            return s.o(s.u1(torch.cat([F.interpolate(y, scale_factor=2.0), a], 1)))

    return U().eval().to(D, torch.float16), (
        torch.randn(4, 4, 128, 128, device=D, dtype=torch.float16),
    )
