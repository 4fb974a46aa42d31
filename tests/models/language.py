"""Models of language of `transformers`."""

from __future__ import annotations

from dataclasses import replace

from tests.models import inputs as given
from tests.models.families import (
    SMALL,
    SMALL_DECODER,
    SMALL_SEQ2SEQ,
    SMALL_T5,
    SMALL_TOKENS,
    cached,
    decoder,
    encoder,
    experts,
    gpt,
    pair,
    row,
    states,
    unrolled,
)
from tests.models.inputs import VOCABULARY

_DISTIL = {"vocab_size": VOCABULARY, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}
_DISENTANGLED = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
_EIGHT = ((2, 8), (3, 8), (1, 8))
_SEVEN = ((2, 7), (3, 7), (1, 7))
"""Open lengths that are rounded up to windows take torch minutes of algebra to trace."""
"""Of models that allow lengths only which their strides divide."""

_XLNET = {"vocab_size": VOCABULARY, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}
_XLM = {"vocab_size": VOCABULARY, "emb_dim": 32, "n_layers": 2, "n_heads": 4, "pad_index": 0}
_FUNNEL = {
    **{"vocab_size": VOCABULARY, "block_sizes": [1, 1], "num_decoder_layers": 1, "d_model": 32},
    **{"n_head": 4, "d_head": 8, "d_inner": 48},
}
_LATENT = {
    **{"q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8},
    **{"v_head_dim": 8, "num_key_value_heads": 4},
}
_GROUPS = {"n_routed_experts": 4, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}
_DEEPSEEK = {**_LATENT, **_GROUPS, "moe_intermediate_size": 24}
_MIXED = {"layer_types": ["conv", "full_attention"]}
_CHUNKS = {"attention_chunk_size": 8}
_DBRX = {
    "ffn_config": {"ffn_hidden_size": 48, "moe_num_experts": 4, "moe_top_k": 2},
    "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 10000.0},
}
_PROPHET = {
    **{"vocab_size": VOCABULARY, "hidden_size": 32, "num_encoder_layers": 2, "use_cache": False},
    **{"num_decoder_layers": 2, "num_encoder_attention_heads": 4, "encoder_ffn_dim": 48},
    **{"num_decoder_attention_heads": 4, "decoder_ffn_dim": 48, "max_position_embeddings": 64},
    **{**SMALL_TOKENS, "ngram": 2},
}
_SPARSE = {"num_experts": 4, "encoder_sparse_step": 2, "decoder_sparse_step": 2}
_LED = {
    **{"attention_window": 4, "max_encoder_position_embeddings": 64},
    **{"max_decoder_position_embeddings": 64},
}

_HYBRID = {"num_key_value_heads": 2, "head_dim": 8}
_MAMBA_2 = {
    **{"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 2, "mamba_d_state": 8},
    **{"mamba_chunk_size": 4, "mamba_expand": 2},
}
_ZAMBA_2 = {
    **{"num_key_value_heads": 4, "mamba_d_state": 8, "mamba_ngroups": 2, "n_mamba_heads": 8},
    **{"chunk_size": 4, "hybrid_layer_ids": [1], "layers_block_type": ["mamba", "hybrid"]},
    **{"num_mem_blocks": 1, "adapter_rank": 4},
}
_NEXT = {
    **{"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8},
    **{"linear_value_head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2},
    **{"moe_intermediate_size": 24, "shared_expert_intermediate_size": 24},
    **{"layer_types": ["linear_attention", "full_attention"]},
}
_GRANITE = {
    **{"num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 24},
    **{"layer_types": ["mamba", "attention"]},
}

ENCODERS = (
    encoder("Bert"),
    encoder("Roberta"),
    encoder("XLMRoberta"),
    encoder("Electra", embedding_size=24),
    encoder("Albert", embedding_size=24),
    encoder("MPNet"),
    encoder("Camembert"),
    encoder("Data2VecText"),
    encoder("MegatronBert"),
    encoder("Ernie"),
    encoder("Esm", pad_token_id=0, mask_token_id=1),
    encoder("RoFormer", embedding_size=32),
    encoder("SqueezeBert", embedding_size=32),
    encoder("RemBert", input_embedding_size=24),
    encoder("Nystromformer", num_landmarks=4, segment_means_seq_len=4),
    encoder("ConvBert", embedding_size=32, conv_kernel_size=3, head_ratio=2),
    encoder("MobileBert", embedding_size=32, intra_bottleneck_size=16, true_hidden_size=16),
    encoder("DebertaV2", **_DISENTANGLED),
    encoder("Deberta", **_DISENTANGLED),
    encoder("ModernBert", pad_token_id=0, cls_token_id=1, sep_token_id=2),
    encoder("NomicBert"),
    encoder("EuroBert", **SMALL_TOKENS),
    row(
        "Longformer",
        "encoder",
        {**SMALL, "attention_window": 4},
        inputs=given.tokens,
        dynamic=given.TEXT_ROWS,
        sizes=_SEVEN,
    ),
    row("FNet", "encoder", SMALL, inputs=given.only_tokens, dynamic=given.BARE),
    row("DistilBert", "encoder", _DISTIL, inputs=given.tokens, dynamic=given.TEXT),
    encoder("RobertaPreLayerNorm"),
    encoder("XLMRobertaXL"),
    encoder("Xmod", default_language="en_XX"),
    encoder("BertGeneration:BertGenerationEncoder"),
    encoder("IBert"),
    encoder("RoCBert"),
    encoder("Splinter"),
    encoder("Luke", entity_vocab_size=20, entity_emb_size=16),
    encoder("LayoutLM"),
    encoder("Lilt", hidden_size=48, channel_shrink_ratio=2),
    encoder("MarkupLM"),
    encoder("Yoso", use_expectation=True),
    row("XLNet", "encoder", _XLNET, inputs=given.tokens, dynamic=given.TEXT),
    row("XLM", "encoder", _XLM, inputs=given.tokens, dynamic=given.TEXT),
    row("Flaubert", "encoder", _XLM, inputs=given.tokens, dynamic=given.TEXT),
    row("Funnel", "encoder", _FUNNEL, inputs=given.tokens, dynamic=given.TEXT_ROWS, sizes=_EIGHT),
    encoder("BigBird", attention_type="original_full"),
    encoder("Gte"),
    encoder("JinaEmbeddingsV3"),
)

DECODERS = (
    gpt("GPT2", "GPT2LMHeadModel"),
    gpt("GPTBigCode"),
    gpt("GPTJ", rotary_dim=4),
    gpt("CodeGen", rotary_dim=4),
    gpt("OpenAIGPT", "OpenAIGPTLMHeadModel"),
    gpt("CTRL", "CTRLLMHeadModel", dff=48),
    decoder("GPTNeoX"),
    decoder("GPTNeo", attention_types=[[["global", "local"], 1]], num_heads=4, num_layers=2),
    decoder("OPT", ffn_dim=48, word_embed_proj_dim=32),
    decoder("Bloom", n_head=4, n_layer=2),
    decoder("Mpt", d_model=32, n_heads=4, n_layers=2, max_seq_len=64),
    decoder("Llama"),
    decoder("Mistral", sliding_window=6),
    decoder("Qwen2"),
    decoder("Qwen3"),
    decoder("Gemma"),
    decoder("Gemma2", sliding_window=6, query_pre_attn_scalar=8),
    decoder("Phi"),
    decoder("Phi3"),
    row(
        "Falcon:FalconForCausalLM",
        "decoder",
        {**SMALL, **SMALL_TOKENS, "use_cache": False, "new_decoder_architecture": True},
        inputs=given.tokens,
        dynamic=given.TEXT,
    ),
    decoder("StableLm"),
    decoder("Starcoder2"),
    decoder("Olmo"),
    decoder("Olmo2"),
    decoder("Cohere"),
    decoder("Granite"),
    decoder("Glm", partial_rotary_factor=0.5),
    decoder("SmolLM3"),
    decoder("Nemotron"),
    decoder("Persimmon"),
    decoder("BioGpt"),
    decoder("XGLM", d_model=32, ffn_dim=48, num_layers=2, attention_heads=4),
    decoder("Cohere2", sliding_window=6),
    decoder("Exaone4", sliding_window=6),
    decoder("Glm4", partial_rotary_factor=0.5),
    row(
        "Gemma3:Gemma3ForCausalLM:Gemma3TextConfig",
        "decoder",
        {**SMALL_DECODER, "sliding_window": 6, "query_pre_attn_scalar": 8},
        inputs=given.tokens,
        dynamic=given.TEXT,
    ),
    decoder("Olmo3", sliding_window=6),
    decoder("Helium"),
    decoder("Ministral", sliding_window=6),
    decoder("Arcee"),
    decoder("Apertus"),
    decoder("DiffLlama"),
    decoder("NanoChat"),
    decoder("SeedOss"),
    decoder("VaultGemma", sliding_window=6),
    decoder("HunYuanDenseV1"),
    decoder("Ernie4_5"),
    decoder("Lfm2", layer_types=["conv", "full_attention"]),
    decoder("ModernBertDecoder", local_attention=6, cls_token_id=1, sep_token_id=2),
    decoder("GPTNeoXJapanese"),
    decoder("Cwm", sliding_window=6),
    decoder("MiniCPM3", **_LATENT),
    decoder("Youtu", **_LATENT),
    decoder("Doge", num_experts=4, keep_window_size=16),
)

EXPERTS = (
    experts("Mixtral"),
    experts("Qwen3Moe", moe_intermediate_size=24, decoder_sparse_step=1),
    experts("Olmoe"),
    experts("Qwen2Moe", moe_intermediate_size=24, shared_expert_intermediate_size=24),
    experts("GptOss", sliding_window=6),
    experts("GraniteMoe"),
    experts("GraniteMoeShared", shared_intermediate_size=24),
    experts("Phimoe"),
    experts("MiniMaxM2", rotary_dim=4),
    experts("DeepseekV2", **_DEEPSEEK, topk_method="greedy"),
    experts("DeepseekV3", **_DEEPSEEK),
    experts("Ernie4_5_Moe", moe_num_experts=4, moe_k=2, moe_intermediate_size=24),
    experts("Dots1", **_GROUPS, n_shared_experts=1, moe_intermediate_size=24),
    experts("Glm4Moe", **_GROUPS, moe_intermediate_size=24, partial_rotary_factor=0.5),
    experts("HunYuanMoEV1", moe_topk=2),
    experts("FlexOlmo"),
    experts("JetMoe", kv_channels=8),
    experts("Lfm2Moe", **_MIXED, moe_intermediate_size=24, num_dense_layers=1),
    experts("Llama4:Llama4ForCausalLM:Llama4TextConfig", intermediate_size_mlp=48, **_CHUNKS),
    experts("Dbrx", d_model=32, n_heads=4, n_layers=2, max_seq_len=64, **_DBRX),
)

CACHED = (
    cached("Llama"),
    cached("Mistral"),
    cached("Qwen2"),
    cached("Qwen3"),
    cached("Gemma"),
    cached("Olmo2"),
    cached("Granite"),
    cached("SmolLM3"),
)

PAIRS = (
    pair("T5", SMALL_T5),
    pair("MT5", SMALL_T5),
    pair("UMT5", SMALL_T5),
    pair("LongT5", SMALL_T5),
    pair("Bart", SMALL_SEQ2SEQ),
    pair("MBart", SMALL_SEQ2SEQ),
    pair("Marian", SMALL_SEQ2SEQ),
    pair("Pegasus", SMALL_SEQ2SEQ),
    pair("PLBart", SMALL_SEQ2SEQ),
    pair("M2M100", SMALL_SEQ2SEQ),
    pair("Blenderbot", SMALL_SEQ2SEQ),
    pair("BlenderbotSmall", SMALL_SEQ2SEQ),
    pair("Mvp", SMALL_SEQ2SEQ),
    pair("PegasusX", {**SMALL_SEQ2SEQ, "num_global_tokens": 4, "block_size": 4}),
    pair("ProphetNet", _PROPHET),
    pair("BigBirdPegasus", {**SMALL_SEQ2SEQ, "attention_type": "original_full"}),
    pair("SwitchTransformers", {**SMALL_T5, "num_experts": 4, "num_decoder_layers": 2}),
    pair("NllbMoe", {**SMALL_SEQ2SEQ, **_SPARSE}),
    row(
        "LED",
        "encoder-decoder",
        {**SMALL_SEQ2SEQ, **_LED},
        inputs=given.source_and_target,
        dynamic=given.PAIR_ROWS,
        sizes=_SEVEN,
    ),
)

STATE_SPACES = (
    unrolled("Bamba:BambaForCausalLM", **_HYBRID, attn_layer_indices=[1], **_MAMBA_2),
    unrolled("FalconH1:FalconH1ForCausalLM", **_HYBRID, **_MAMBA_2, mamba_d_ssm=64),
    unrolled("Zamba2:Zamba2ForCausalLM", **_ZAMBA_2),
    unrolled("Qwen3Next:Qwen3NextForCausalLM", **_HYBRID, **_NEXT),
    unrolled("GraniteMoeHybrid:GraniteMoeHybridForCausalLM", **_HYBRID, **_MAMBA_2, **_GRANITE),
    unrolled("Mamba:MambaForCausalLM", state_size=4, time_step_rank=4, expand=2),
    unrolled("FalconMamba:FalconMambaForCausalLM", state_size=4, time_step_rank=4, expand=2),
    replace(
        states(
            "Mamba2:Mamba2ForCausalLM",
            **{"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 4},
        ),
        sizes=((2, 7), (3, 13), (1, 5)),  # it pads to whole chunks, which it asks first
    ),
    unrolled("Rwkv:RwkvForCausalLM", attention_hidden_size=32, context_length=64),
    unrolled("RecurrentGemma:RecurrentGemmaForCausalLM", lru_width=32, attention_window_size=8),
    unrolled(
        "Jamba:JambaForCausalLM",
        **{"num_key_value_heads": 2, "mamba_d_state": 4, "mamba_dt_rank": 4, "num_experts": 2},
        **{"attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False},
    ),
)
