#!/usr/bin/env python3
"""Records tiny random models of families: what transformers computes, and the GGUF files of llama.cpp's converter
(README.md).

    record_families.py LLAMA_CPP RECORDINGS [FAMILY...]

LLAMA_CPP: a source tree of llama.cpp (the folder of convert_hf_to_gguf.py and gguf-py). Makes RECORDINGS/FAMILY with
hf/ (config.json, model.safetensors), model.gguf and golden.safetensors, which pack.py packs. Needs torch, transformers,
safetensors and what the converter needs (numpy, sentencepiece, PyYAML, protobuf).
"""
import json
import math
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, GraniteConfig, GraniteForCausalLM, Mistral4ForCausalLM

LENGTHS = (40, 64, 200)  # of the sequences
GREEDY = 32
COMMON = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0, torch_dtype="bfloat16", vocab_size=96, hidden_size=32,
              num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64,
              max_position_embeddings=512, rope_theta=10000.0, hidden_act="silu", attention_bias=False)
ENDLESS = dict(eos_token_id=None)  # for tests that want answers of a length
NOT_OF_CLASS = ("architectures", "model_type", "torch_dtype")

# config.json beside what all have, and the size of embeddings where they are not normal numbers.
FAMILIES = {
    "gemma": (dict(architectures=["GemmaForCausalLM"], model_type="gemma", hidden_act="gelu_pytorch_tanh",
                   hidden_activation=None, num_key_value_heads=1, head_dim=24, rms_norm_eps=1e-6,
                   tie_word_embeddings=True), 0.2),
    "cohere": (dict(architectures=["CohereForCausalLM"], model_type="cohere", layer_norm_eps=1e-5, logit_scale=0.25,
                    use_qk_norm=False, tie_word_embeddings=True), 0.8),
    # The converter reads the last three, which are those of the first folders.
    "glm": (dict(architectures=["GlmForCausalLM"], model_type="glm", head_dim=8, partial_rotary_factor=0.5,
                 rms_norm_eps=1e-5, attention_bias=True, tie_word_embeddings=False, seq_length=512,
                 layernorm_epsilon=1e-5, ffn_hidden_size=64), 1),
    "stablelm": (dict(architectures=["StableLmForCausalLM"], model_type="stablelm", layer_norm_eps=1e-5,
                      partial_rotary_factor=0.25, use_qkv_bias=True, qk_layernorm=False, use_parallel_residual=False,
                      num_attention_heads=2, tie_word_embeddings=False), 1),
    "minicpm": (dict(architectures=["MiniCPMForCausalLM"], model_type="minicpm", rms_norm_eps=1e-5, scale_emb=6,
                     scale_depth=1.4, dim_model_base=8, tie_word_embeddings=True), 0.5),
    "hunyuan": (dict(architectures=["HunYuanDenseV1ForCausalLM"], model_type="hunyuan_v1_dense", head_dim=16,
                     rms_norm_eps=1e-5, use_qk_norm=True, tie_word_embeddings=True), 0.3),
    "arcee": (dict(architectures=["ArceeForCausalLM"], model_type="arcee", hidden_act="relu2", rms_norm_eps=1e-5,
                   mlp_bias=False, tie_word_embeddings=False, **ENDLESS), 1),
    "nemotron": (dict(architectures=["NemotronForCausalLM"], model_type="nemotron", hidden_act="relu2", norm_eps=1e-5,
                      partial_rotary_factor=0.5, mlp_bias=False, tie_word_embeddings=False, **ENDLESS), 1),
    "command_r_plus": (dict(architectures=["CohereForCausalLM"], model_type="cohere", layer_norm_eps=1e-3,
                            logit_scale=0.25, use_qk_norm=True, tie_word_embeddings=True, **ENDLESS), 0.8),
    "stablelm_12b": (dict(architectures=["StableLmForCausalLM"], model_type="stablelm", layer_norm_eps=1e-3,
                          partial_rotary_factor=0.25, use_qkv_bias=False, qk_layernorm=True,
                          use_parallel_residual=True, tie_word_embeddings=False, **ENDLESS), 1),
    # The converter says four times the hidden size, and as many key-value heads as heads.
    "phi2": (dict(architectures=["PhiForCausalLM"], model_type="phi", hidden_act="gelu_new", layer_norm_eps=1e-5,
                  partial_rotary_factor=0.5, qk_layernorm=False, num_key_value_heads=4, intermediate_size=128,
                  tie_word_embeddings=False, **ENDLESS), 1),
}
LATENTS = dict(num_key_value_heads=4, head_dim=16, q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=8,
               qk_rope_head_dim=8, v_head_dim=8, rms_norm_eps=1e-6)
FAMILIES |= {
    "arcee_bias": (FAMILIES["arcee"][0] | dict(mlp_bias=True), 1),
    "nemotron_bias": (FAMILIES["nemotron"][0] | dict(mlp_bias=True, attention_bias=True), 1),
    # Granite's first models of code.
    "llama_bias": (dict(architectures=["LlamaForCausalLM"], model_type="llama", rms_norm_eps=1e-5, mlp_bias=True,
                        attention_bias=True, tie_word_embeddings=True, **ENDLESS), 0.5),
    "phi2_norms": (FAMILIES["phi2"][0] | dict(qk_layernorm=True, layer_norm_eps=1e-3), 1),
    "mistral4": (dict(architectures=["Mistral4ForCausalLM"], model_type="mistral4", n_routed_experts=6,
                      num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=32, n_group=1, topk_group=1,
                      first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=1.5, rope_interleave=True,
                      rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=16.0, beta_fast=32.0,
                                           beta_slow=1.0, original_max_position_embeddings=32, mscale=1.0,
                                           mscale_all_dim=1.0, llama_4_scaling_beta=0.1, partial_rotary_factor=0.5),
                      tie_word_embeddings=False, **LATENTS, **ENDLESS), 1),
}
HYBRID = dict(architectures=["GraniteMoeHybridForCausalLM"], model_type="granitemoehybrid", num_hidden_layers=4,
              layer_types=["mamba", "attention", "mamba", "mamba"], position_embedding_type="nope", rms_norm_eps=1e-5,
              mamba_expand=2, mamba_d_conv=4, mamba_conv_bias=True, mamba_proj_bias=False, mamba_chunk_size=64,
              embedding_multiplier=6.0, attention_multiplier=0.25, residual_multiplier=0.5, logits_scaling=0.5,
              tie_word_embeddings=False, **ENDLESS)
FAMILIES |= {
    "granite4_hybrid": (HYBRID | dict(mamba_n_heads=8, mamba_d_head=8, mamba_n_groups=1, mamba_d_state=16,
                                      num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=64), 0.2),
    "granite4_hybrid_moe": (HYBRID | dict(mamba_n_heads=4, mamba_d_head=16, mamba_n_groups=2, mamba_d_state=24,
                                          num_local_experts=6, num_experts_per_tok=2, intermediate_size=48,
                                          shared_intermediate_size=40), 0.2),
}
FAMILIES |= {
    "bamba": (dict(architectures=["BambaForCausalLM"], model_type="bamba", num_hidden_layers=4, attn_layer_indices=[2],
                   attn_rotary_emb=4, rms_norm_eps=1e-5, mamba_expand=2, mamba_n_heads=8, mamba_d_head="auto",
                   mamba_n_groups=1, mamba_d_state=16, mamba_d_conv=4, mamba_conv_bias=True, mamba_proj_bias=False,
                   mamba_chunk_size=64, mlp_bias=False, tie_word_embeddings=False, **ENDLESS), 1),
}
LFM2 = dict(num_hidden_layers=4, norm_eps=1e-5, conv_L_cache=3, conv_bias=False, tie_word_embeddings=True, **ENDLESS)
FAMILIES |= {
    # A network of 80 columns.
    "lfm2": (dict(architectures=["Lfm2ForCausalLM"], model_type="lfm2", intermediate_size=96,
                  block_auto_adjust_ff_dim=True, block_ffn_dim_multiplier=1.2, block_multiple_of=16,
                  layer_types=["conv", "full_attention", "conv", "conv"], **LFM2), 0.3),
    "lfm2_moe": (dict(architectures=["Lfm2MoeForCausalLM"], model_type="lfm2_moe", num_dense_layers=1, num_experts=6,
                      num_experts_per_tok=2, moe_intermediate_size=24, use_expert_bias=True, norm_topk_prob=True,
                      routed_scaling_factor=1.0, layer_types=["conv", "conv", "full_attention", "conv"], **LFM2), 0.3),
}
# All factors are powers of two, so that they change no bit of what they are multiplied into.
FALCON_H1 = dict(architectures=["FalconH1ForCausalLM"], model_type="falcon_h1", head_dim=8, rms_norm_eps=1e-5,
                 mamba_d_ssm=48, mamba_expand=2, mamba_d_conv=4, mamba_conv_bias=True, mamba_proj_bias=False,
                 mamba_chunk_size=64, projectors_bias=False, mlp_bias=False, mamba_norm_before_gate=False,
                 embedding_multiplier=2.0, lm_head_multiplier=0.5, key_multiplier=0.5, attention_in_multiplier=2.0,
                 attention_out_multiplier=0.5, mlp_multipliers=[0.5, 2.0], ssm_in_multiplier=2.0,
                 ssm_out_multiplier=0.5, ssm_multipliers=[0.5, 1.0, 0.5, 2.0, 0.25], tie_word_embeddings=False,
                 **ENDLESS)
FAMILIES |= {
    "falcon_h1": (FALCON_H1 | dict(mamba_n_heads=6, mamba_d_head=8, mamba_n_groups=1, mamba_d_state=16,
                                   mamba_rms_norm=False), 0.5),
    "falcon_h1_norm": (FALCON_H1 | dict(mamba_n_heads=4, mamba_d_head=12, mamba_n_groups=2, mamba_d_state=24,
                                        mamba_rms_norm=True), 0.5),
}
# The class takes time_step_min for the least step, which the kernels of the makers do not.
FAMILIES |= {
    "nemotron_h": (dict(architectures=["NemotronHForCausalLM"], model_type="nemotron_h", num_hidden_layers=5,
                        hybrid_override_pattern="M-M*-", head_dim=16, mlp_hidden_act="relu2", mamba_hidden_act="silu",
                        layer_norm_epsilon=1e-5, mamba_num_heads=8, mamba_head_dim=8, n_groups=2, ssm_state_size=16,
                        conv_kernel=4, expand=2, use_conv_bias=True, use_bias=False, mlp_bias=False, chunk_size=64,
                        mamba_proj_bias=False, time_step_min=1e-30, tie_word_embeddings=False, **ENDLESS), 1),
}
FAMILIES |= {
    "nemotron_h_moe": (FAMILIES["nemotron_h"][0] | dict(
        hybrid_override_pattern="MEM*E", n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1,
        moe_intermediate_size=24, moe_shared_expert_intermediate_size=40, n_group=1, topk_group=1, norm_topk_prob=True,
        routed_scaling_factor=1.5), 1),
}
# Small ones: fewer layers, tokens and columns.
SMALL = dict(vocab_size=64, num_hidden_layers=2, intermediate_size=48, rms_norm_eps=1e-5, tie_word_embeddings=False,
             **ENDLESS)
EXPERTS = dict(num_experts_per_tok=2, moe_intermediate_size=16, norm_topk_prob=True, routed_scaling_factor=1.5,
               n_group=1, topk_group=1, first_k_dense_replace=1)
FAMILIES |= {
    "apertus": (SMALL | dict(architectures=["ApertusForCausalLM"], model_type="apertus", hidden_act="xielu",
                             rope_parameters=dict(rope_type="llama3", rope_theta=10000.0, factor=8.0,
                                                  original_max_position_embeddings=64, low_freq_factor=1.0,
                                                  high_freq_factor=4.0)), 1),
    "minimax_m2": (SMALL | dict(architectures=["MiniMaxM2ForCausalLM"], model_type="minimax_m2", head_dim=16,
                                rotary_dim=8, num_local_experts=4, num_experts_per_tok=2, intermediate_size=16,
                                scoring_func="sigmoid", use_routing_bias=True, use_qk_norm=True,
                                shared_intermediate_size=0), 1),
    "hunyuan_moe": (SMALL | dict(architectures=["HunYuanMoEV1ForCausalLM"], model_type="hunyuan_v1_moe", head_dim=8,
                                 num_experts=4, moe_topk=[2, 2], moe_intermediate_size=[16, 16], intermediate_size=16,
                                 num_shared_expert=[1, 1], use_qk_norm=True, tie_word_embeddings=True), 0.3),
    "exaone_moe": (SMALL | EXPERTS | dict(architectures=["ExaoneMoeForCausalLM"], model_type="exaone_moe", head_dim=8,
                                          num_experts=4, num_shared_experts=1,
                                          scoring_func="sigmoid", topk_method="noaux_tc", sliding_window=16,
                                          sliding_window_pattern="LG",
                                          layer_types=["sliding_attention", "full_attention"],
                                          rope_parameters=dict(rope_type="default", rope_theta=10000.0)), 0.8),
    "dots1": (SMALL | EXPERTS | dict(architectures=["Dots1ForCausalLM"], model_type="dots1", head_dim=8,
                                     num_key_value_heads=4, n_routed_experts=4, n_shared_experts=2,
                                     scoring_func="sigmoid", topk_method="noaux_tc", sliding_window=None,
                                     max_window_layers=2), 1),
    "afmoe": (SMALL | dict(architectures=["AfmoeForCausalLM"], model_type="afmoe", head_dim=8, num_hidden_layers=4,
                           num_experts=4, num_experts_per_tok=2, num_shared_experts=1, moe_intermediate_size=16,
                           num_dense_layers=2, route_norm=True, route_scale=1.5, score_func="sigmoid",
                           sliding_window=16, global_attn_every_n_layers=4, mup_enabled=True,
                           layer_types=3 * ["sliding_attention"] + ["full_attention"]), 0.2),
    "mellum": (SMALL | dict(architectures=["MellumForCausalLM"], model_type="mellum", head_dim=8, num_experts=4,
                            num_experts_per_tok=2, moe_intermediate_size=16, norm_topk_prob=True, sliding_window=16,
                            layer_types=["sliding_attention", "full_attention"],
                            rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=500000.0),
                                                 sliding_attention=dict(rope_type="default", rope_theta=1000.0))), 1),
    # The converter reads the key of the rotation.
    "bailing_moe": (SMALL | EXPERTS | dict(architectures=["BailingMoeV2ForCausalLM"], model_type="bailing_moe",
                                           head_dim=8, num_experts=6, num_shared_experts=1, n_group=3, topk_group=2,
                                           score_function="sigmoid", moe_router_enable_expert_bias=True,
                                           use_qk_norm=True, use_qkv_bias=False, use_bias=False,
                                           partial_rotary_factor=0.5), 1),
    "hy_v3": (SMALL | dict(architectures=["HYV3ForCausalLM"], model_type="hy_v3", head_dim=8, num_experts=4,
                           num_experts_per_tok=2, num_shared_experts=1, moe_intermediate_size=16, intermediate_size=32,
                           router_scaling_factor=1.5, route_norm=True, mlp_layer_types=["dense", "sparse"]), 1),
    # The amplitude is the one that the converter writes, whatever a folder says.
    "phimoe": (SMALL | dict(architectures=["PhiMoEForCausalLM"], model_type="phimoe", num_local_experts=8,
                            num_experts_per_tok=2, intermediate_size=16, router_jitter_noise=0.01,
                            input_jitter_noise=0.0, attention_bias=True, lm_head_bias=True, sliding_window=None,
                            rope_parameters=dict(rope_type="longrope", rope_theta=10000.0,
                                                 original_max_position_embeddings=128,
                                                 short_factor=[1.0, 1.0625, 1.25, 1.5],
                                                 long_factor=[1.0, 1.5, 2.75, 4.0],
                                                 short_mscale=(1 + math.log(4) / math.log(128)) ** 0.5,
                                                 long_mscale=(1 + math.log(4) / math.log(128)) ** 0.5)), 1),
}
# Names, where the classes have others.
PUBLISHED = {"block_sparse_moe.experts.gate_up_proj": "block_sparse_moe.input_linear.weight",
             "block_sparse_moe.experts.down_proj": "block_sparse_moe.output_linear.weight",
             "block_sparse_moe.router.weight": "block_sparse_moe.router.layer.weight"}
NORMS_LESS_ONE = ("gemma", "nemotron", "nemotron_bias")
# To llama.cpp the first has no norms of heads; its converter pairs columns of the second that turn otherwise.
WITHOUT_GGUF = ("phi2_norms", "bamba")
# transformers gives these the names that their makers have, and each expert matrices of its own.
SAVED_BY_CLASS = ("apertus", "minimax_m2", "hunyuan_moe", "exaone_moe", "dots1", "afmoe", "mellum", "bailing_moe",
                  "hy_v3", "phimoe")


def minicpm(keys):
    """MiniCPM has no class here: Granite's with its multipliers is the same model."""
    given = {key: keys[key] for key in keys if key not in NOT_OF_CLASS}
    scale_emb, scale_depth, base = (given.pop(key) for key in ("scale_emb", "scale_depth", "dim_model_base"))
    config = GraniteConfig(embedding_multiplier=float(scale_emb),
                           residual_multiplier=scale_depth / keys["num_hidden_layers"] ** 0.5,
                           logits_scaling=keys["hidden_size"] / base,
                           attention_multiplier=(keys["hidden_size"] / keys["num_attention_heads"]) ** -0.5, **given)
    config._attn_implementation = "eager"
    return GraniteForCausalLM(config)


def bailing_moe(keys):
    """Nor has Ling 2.0: GLM-4.5's is the same model."""
    given = {key: keys[key] for key in keys if key not in NOT_OF_CLASS}
    return model_of(given | dict(model_type="glm4_moe", n_routed_experts=given.pop("num_experts"),
                                 n_shared_experts=given.pop("num_shared_experts")))


def bailing_names(tensors):
    names = {"embed_tokens": "word_embeddings", "self_attn.o_proj": "attention.dense",
             "self_attn.q_norm": "attention.query_layernorm", "self_attn.k_norm": "attention.key_layernorm",
             "e_score_correction_bias": "expert_bias"}
    renamed = {}
    for name, tensor in tensors.items():
        if ".k_proj." in name or ".v_proj." in name:
            continue
        if ".q_proj." in name:
            renamed[name.replace("self_attn.q_proj", "attention.query_key_value")] = torch.cat(
                [tensors[name.replace(".q_proj.", part)] for part in (".q_proj.", ".k_proj.", ".v_proj.")])
            continue
        for own, theirs in names.items():
            name = name.replace(own, theirs)
        renamed[name] = tensor
    return renamed


def model_of(keys):
    if keys["model_type"] == "minicpm":
        return minicpm(keys)
    if keys["model_type"] == "bailing_moe":
        return bailing_moe(keys)
    given = {key: keys[key] for key in keys if key not in NOT_OF_CLASS}
    rope = {"rope_type": "default", "rope_theta": given.pop("rope_theta")}
    if "partial_rotary_factor" in given:
        rope["partial_rotary_factor"] = given.pop("partial_rotary_factor")
    rope = given.pop("rope_parameters", rope)
    if keys["model_type"] == "gemma":
        given.pop("hidden_activation")
    config = AutoConfig.for_model(keys["model_type"], rope_parameters=rope, **given)
    config._experts_implementation = "eager"
    if keys["model_type"] == "mistral4":  # the text model of another
        config._attn_implementation = "eager"
        return Mistral4ForCausalLM(config)
    return AutoModelForCausalLM.from_config(config, attn_implementation="eager")


def fill(model, family, embedding):
    """Values are bfloat16 numbers. Some families' norms are around 0."""
    middle = 0 if family in NORMS_LESS_ONE else 1
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn_like(parameter)
            if name.endswith("bias"):  # of experts' choices, too
                values = 0.2 * noise
            elif parameter.ndim == 1 or "norm" in name:
                values = middle + 0.2 * noise
            else:
                values = noise * (embedding if "embed" in name else parameter.shape[-1] ** -0.5)
            parameter.copy_(values.bfloat16().float())
        for name, buffer in model.named_buffers():
            if name.endswith(("expert_bias", "correction_bias")):
                size = 0.2 if family in SAVED_BY_CLASS else 0.1
                buffer.copy_((size * torch.randn_like(buffer)).bfloat16().float())


def check(model, keys):
    """Against keys that a version of the classes passes over."""
    head_dim = keys.get("head_dim", keys["hidden_size"] // keys["num_attention_heads"])
    rotary = int(head_dim * keys.get("rope_parameters", keys).get("partial_rotary_factor", 1))
    rotary = keys.get("attn_rotary_emb", keys.get("rotary_dim", rotary))
    turns = keys.get("position_embedding_type", "rope") == "rope" and keys["model_type"] != "nemotron_h"
    rope = getattr(model.model, "rotary_emb", None) or getattr(model.model, "pos_emb", None)
    if keys["model_type"] == "mellum":  # a rotation of each kind of layers
        assert 2 * rope.sliding_attention_inv_freq.numel() == rotary, "another rotation"
        return
    assert (2 * rope.inv_freq.numel() == rotary) if turns else rope is None, "another rotation"
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert tied == keys["tie_word_embeddings"], "another output matrix"


def published(name, family):
    if family.startswith("nemotron_h") and name.startswith("model."):
        return "backbone." + name.removeprefix("model.")
    for own, theirs in PUBLISHED.items():
        name = name.replace(own, theirs)
    return name


def with_matrices_of_experts(tensors):
    """LFM2's and Nemotron-H's folders have matrices for each expert."""
    apart = {}
    for name, tensor in tensors.items():
        root = name.rpartition(".")[0]
        for expert in range(len(tensor) if ".experts." in name else 0):
            if name.endswith("gate_up_proj"):
                apart[f"{root}.{expert}.w1.weight"], apart[f"{root}.{expert}.w3.weight"] = tensor[expert].chunk(2)
            else:
                own = "w2" if "feed_forward" in root else name.rpartition(".")[2]
                apart[f"{root}.{expert}.{own}.weight"] = tensor[expert]
        if ".experts." not in name:
            apart[name] = tensor
    return {name: tensor.contiguous() for name, tensor in apart.items()}


def turn_as_makers(rotary):
    """Phi-3.5-MoE's class takes the factors of short texts for long ones, too, unlike the code of its makers."""
    compute, forward = rotary.rope_init_fn, rotary.forward

    def of_length(x, position_ids=None):
        length = int(position_ids.max()) + 1
        rotary.rope_init_fn = lambda config, *_, **__: compute(config, None, seq_len=length)
        return forward(x, position_ids)
    rotary.forward = of_length


def record(model, vocabulary):
    golden = {}
    for k, length in enumerate(LENGTHS):
        ids = torch.randint(3, vocabulary, (length,), generator=torch.Generator().manual_seed(7 + k))
        golden[f"ids.{k}"] = ids.int()
        greedy, margins = [], []
        for step in range(GREEDY):
            rows = model(torch.cat([ids, torch.tensor(greedy, dtype=ids.dtype)])[None], use_cache=False).logits[0]
            if step == 0:
                golden[f"logits.{k}"] = rows.float().contiguous()
            best = rows[-1].topk(2)
            greedy.append(int(best.indices[0]))
            margins.append(float(best.values[0] - best.values[1]))
        golden[f"greedy.{k}"] = torch.tensor(greedy, dtype=torch.int32)
        golden[f"greedy_margin.{k}"] = torch.tensor(margins)
    return golden


def converter_of(llama_cpp, architecture):
    sys.path[:0] = [str(llama_cpp), str(llama_cpp / "gguf-py")]
    try:
        from conversion import get_model_class
        if architecture == "Mistral4ForCausalLM":  # which it knows as the text model of another
            return get_model_class("Mistral3ForConditionalGeneration").Mistral4Model
        return get_model_class(architecture)
    except ImportError:
        from convert_hf_to_gguf import ModelBase, ModelType  # before the converter was cut into several files
        return ModelBase.from_model_architecture(architecture, ModelType.TEXT)


def with_what_is_returned(modify_tensors):
    """Norms of StableLM's heads: llama-cpp-python 0.3.36 returns them from a generator, where nobody sees them."""
    def modified(self, *arguments):
        returned = yield from modify_tensors(self, *arguments)
        yield from returned or ()
    return modified


def convert(llama_cpp, folder, file, keys):
    """Without a vocabulary. Matrices as bfloat16, the rest as float32."""
    converter = converter_of(llama_cpp, keys["architectures"][0])
    converter.modify_tensors = with_what_is_returned(converter.modify_tensors)
    import gguf
    converter.set_vocab = lambda self: None
    converter(folder, gguf.LlamaFileType.MOSTLY_BF16, file, eager=True, hparams=dict(keys)).write()


def seed_of(family):
    """Those that their classes save have the seeds of the families from lfm2 on, too."""
    families = list(FAMILIES)
    if family in SAVED_BY_CLASS:
        return 1 + families.index("lfm2") + SAVED_BY_CLASS.index(family)
    return 1 + families.index(family)


def main():
    llama_cpp, recordings = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    for family in sys.argv[3:] or FAMILIES:
        more, embedding = FAMILIES[family]
        keys = COMMON | more
        folder = recordings / family / "hf"
        folder.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(seed_of(family))
        model = model_of(keys).eval()
        fill(model, family, embedding)
        check(model, keys)
        if family == "phimoe":
            turn_as_makers(model.model.rotary_emb)
        if family in SAVED_BY_CLASS:
            model.save_pretrained(folder)
            stored = load_file(folder / "model.safetensors")
            stored = bailing_names(stored) if family == "bailing_moe" else stored
        else:
            stored = {published(name, family): tensor for name, tensor in model.state_dict().items()}
        tensors = {name: tensor.bfloat16().contiguous() for name, tensor in stored.items()
                   if not (keys["tie_word_embeddings"] and name == "lm_head.weight")}
        if family in ("lfm2_moe", "nemotron_h_moe"):
            tensors = with_matrices_of_experts(tensors)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(keys, indent=1))
        with torch.no_grad():
            golden = record(model.double(), keys["vocab_size"])
        save_file(golden, folder.parent / "golden.safetensors")
        if family not in WITHOUT_GGUF:
            convert(llama_cpp, folder, folder.parent / "model.gguf", keys)
        print(family, "smallest margin", min(float(golden[f"greedy_margin.{k}"].min()) for k in range(len(LENGTHS))))


if __name__ == "__main__":
    main()
