"""Random tiny models of the families that tests/data has no recording of, as Hugging Face folders: configuration and bfloat16 weights.

usage: bench/tiny_folders.py FOLDER [FAMILY...]
"""
import json
import pathlib
import random
import struct
import sys

HIDDEN, ROWS, LAYERS, HEADS, KV, DIM, WIDTH, EXPERTS, EXPERT = 64, 272, 4, 4, 2, 16, 128, 8, 32
COMMON = {"hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV,
          "intermediate_size": WIDTH, "vocab_size": ROWS, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
          "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "tie_word_embeddings": False}

Shapes = dict[str, list[int]]


def named(root: str, shapes: Shapes) -> Shapes:
    return {root + name: shape for name, shape in shapes.items()}


def attention(bias: bool = False, output_bias: bool = False, norms: Shapes | None = None) -> Shapes:
    shapes = {"q_proj.weight": [HEADS * DIM, HIDDEN], "k_proj.weight": [KV * DIM, HIDDEN], "v_proj.weight": [KV * DIM, HIDDEN],
              "o_proj.weight": [HIDDEN, HEADS * DIM]}
    if bias:
        shapes |= {"q_proj.bias": [HEADS * DIM], "k_proj.bias": [KV * DIM], "v_proj.bias": [KV * DIM]}
    if output_bias:
        shapes |= {"o_proj.bias": [HIDDEN]}
    return named("self_attn.", shapes | (norms or {}))


def gated(root: str, width: int) -> Shapes:
    return named(root, {"gate_proj.weight": [width, HIDDEN], "up_proj.weight": [width, HIDDEN], "down_proj.weight": [HIDDEN, width]})


def norms(*names: str, bias: bool = False) -> Shapes:
    parts = ("weight", "bias") if bias else ("weight",)
    return {f"{name}.{part}": [HIDDEN] for name in names for part in parts}


def experts(root: str) -> Shapes:
    shapes = {f"{root}gate.weight": [EXPERTS, HIDDEN]}
    for e in range(EXPERTS):
        shapes |= gated(f"{root}experts.{e}.", EXPERT)
    return shapes


USUAL = norms("input_layernorm", "post_attention_layernorm")
QWEN_SHARED = gated("mlp.shared_expert.", EXPERT) | {"mlp.shared_expert_gate.weight": [1, HIDDEN]}


def mixtral() -> tuple[dict, list[Shapes]]:
    root = "block_sparse_moe."
    layer = USUAL | attention() | {root + "gate.weight": [EXPERTS, HIDDEN]}
    for e in range(EXPERTS):
        layer |= named(f"{root}experts.{e}.", {"w1.weight": [WIDTH, HIDDEN], "w3.weight": [WIDTH, HIDDEN], "w2.weight": [HIDDEN, WIDTH]})
    return {"model_type": "mixtral", "num_local_experts": EXPERTS, "num_experts_per_tok": 2}, [layer] * LAYERS


def qwen2_moe() -> tuple[dict, list[Shapes]]:
    keys = {"model_type": "qwen2_moe", "num_experts": EXPERTS, "num_experts_per_tok": 3, "moe_intermediate_size": EXPERT,
            "shared_expert_intermediate_size": EXPERT, "norm_topk_prob": False}
    return keys, [USUAL | attention(bias=True) | experts("mlp.") | QWEN_SHARED] * LAYERS


def smollm3() -> tuple[dict, list[Shapes]]:
    return {"model_type": "smollm3", "no_rope_layers": [1, 1, 1, 0], "tie_word_embeddings": True}, [
        USUAL | attention() | gated("mlp.", WIDTH)] * LAYERS


def starcoder2() -> tuple[dict, list[Shapes]]:
    layer = norms("input_layernorm", "post_attention_layernorm", bias=True) | attention(bias=True, output_bias=True)
    layer |= {"mlp.c_fc.weight": [WIDTH, HIDDEN], "mlp.c_fc.bias": [WIDTH], "mlp.c_proj.weight": [HIDDEN, WIDTH],
              "mlp.c_proj.bias": [HIDDEN]}
    keys = {"model_type": "starcoder2", "hidden_act": "gelu_pytorch_tanh", "norm_epsilon": 1e-5, "tie_word_embeddings": True,
            "sliding_window": 12}
    return keys, [layer] * LAYERS


def olmo2() -> tuple[dict, list[Shapes]]:
    heads = {"q_norm.weight": [HEADS * DIM], "k_norm.weight": [KV * DIM]}
    layer = norms("post_attention_layernorm", "post_feedforward_layernorm") | attention(norms=heads) | gated("mlp.", WIDTH)
    return {"model_type": "olmo2"}, [layer] * LAYERS


def granitemoe(shared: bool = False) -> tuple[dict, list[Shapes]]:
    root = "block_sparse_moe."
    layer = USUAL | attention() | named(root, {"router.layer.weight": [EXPERTS, HIDDEN], "input_linear.weight": [EXPERTS, 2 * WIDTH, HIDDEN],
                                               "output_linear.weight": [EXPERTS, HIDDEN, WIDTH]})
    keys = {"model_type": "granitemoe", "num_local_experts": EXPERTS, "num_experts_per_tok": 2, "embedding_multiplier": 6.0,
            "attention_multiplier": 0.125, "residual_multiplier": 0.5, "logits_scaling": 3.0, "tie_word_embeddings": True}
    if shared:
        layer |= named("shared_mlp.", {"input_linear.weight": [2 * EXPERT, HIDDEN], "output_linear.weight": [HIDDEN, EXPERT]})
        keys |= {"model_type": "granitemoeshared", "shared_intermediate_size": EXPERT}
    return keys, [layer] * LAYERS


def granite4(count: int) -> tuple[dict, list[Shapes]]:
    """All layers attend; without experts no layer turns."""
    width = EXPERT if count else WIDTH
    layer = USUAL | attention() | named("shared_mlp.", {"input_linear.weight": [2 * width, HIDDEN], "output_linear.weight": [HIDDEN, width]})
    if count:
        layer |= named("block_sparse_moe.", {"router.layer.weight": [count, HIDDEN], "input_linear.weight": [count, 2 * WIDTH, HIDDEN],
                                             "output_linear.weight": [count, HIDDEN, WIDTH]})
    keys = {"model_type": "granitemoehybrid", "num_local_experts": count, "num_experts_per_tok": 2, "shared_intermediate_size": width,
            "layer_types": ["attention"] * LAYERS, "position_embedding_type": "rope" if count else "nope", "embedding_multiplier": 6.0,
            "attention_multiplier": 0.125, "residual_multiplier": 0.5, "logits_scaling": 3.0, "tie_word_embeddings": True}
    return keys, [layer] * LAYERS


def deepseek_v2() -> tuple[dict, list[Shapes]]:
    rank, q_rank, plain, turned, value = 32, 48, 16, 8, 20  # llama.cpp wants q_rank in models of other than 26 or 27 layers
    latents = named("self_attn.", {"q_a_proj.weight": [q_rank, HIDDEN], "q_a_layernorm.weight": [q_rank],
                                   "q_b_proj.weight": [HEADS * (plain + turned), q_rank], "kv_a_proj_with_mqa.weight": [rank + turned, HIDDEN],
                                   "kv_a_layernorm.weight": [rank], "kv_b_proj.weight": [HEADS * (plain + value), rank],
                                   "o_proj.weight": [HIDDEN, HEADS * value]})
    dense = USUAL | latents | gated("mlp.", WIDTH)
    sparse = USUAL | latents | experts("mlp.") | gated("mlp.shared_experts.", 2 * EXPERT)
    keys = {"model_type": "deepseek_v2", "kv_lora_rank": rank, "q_lora_rank": q_rank, "qk_nope_head_dim": plain, "qk_rope_head_dim": turned,
            "v_head_dim": value, "n_routed_experts": EXPERTS, "num_experts_per_tok": 3, "moe_intermediate_size": EXPERT,
            "n_shared_experts": 2, "first_k_dense_replace": 1, "routed_scaling_factor": 1.5, "topk_method": "greedy", "rms_norm_eps": 1e-6,
            "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 32, "beta_slow": 1,
                             "mscale": 0.707, "mscale_all_dim": 0.707}}
    return keys, [dense] + [sparse] * (LAYERS - 1)


def qwen3_5_moe() -> tuple[dict, list[Shapes]]:
    keys_, values, size = 2, 4, 16
    channels = 2 * keys_ * size + values * size
    state = named("linear_attn.", {
        "in_proj_qkv.weight": [channels, HIDDEN], "in_proj_z.weight": [values * size, HIDDEN], "in_proj_b.weight": [values, HIDDEN],
        "in_proj_a.weight": [values, HIDDEN], "conv1d.weight": [channels, 1, 4], "A_log": [values], "dt_bias": [values],
        "norm.weight": [size], "out_proj.weight": [HIDDEN, values * size]})
    full = named("self_attn.", {"q_proj.weight": [2 * HEADS * DIM, HIDDEN], "k_proj.weight": [KV * DIM, HIDDEN],
                                "v_proj.weight": [KV * DIM, HIDDEN], "o_proj.weight": [HIDDEN, HEADS * DIM], "q_norm.weight": [DIM],
                                "k_norm.weight": [DIM]})
    mixture = {"mlp.gate.weight": [EXPERTS, HIDDEN], "mlp.experts.gate_up_proj": [EXPERTS, 2 * EXPERT, HIDDEN],
               "mlp.experts.down_proj": [EXPERTS, HIDDEN, EXPERT]} | QWEN_SHARED
    config = {"model_type": "qwen3_5_moe", "num_experts": EXPERTS, "num_experts_per_tok": 3, "moe_intermediate_size": EXPERT,
              "shared_expert_intermediate_size": EXPERT, "linear_num_key_heads": keys_, "linear_num_value_heads": values,
              "linear_key_head_dim": size, "linear_value_head_dim": size, "linear_conv_kernel_dim": 4, "head_dim": DIM,
              "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
              "layer_types": ["linear_attention"] * 3 + ["full_attention"]}
    return config, [USUAL | state | mixture] * 3 + [USUAL | full | mixture]


FAMILIES = {"mixtral": mixtral, "qwen2_moe": qwen2_moe, "smollm3": smollm3, "starcoder2": starcoder2, "olmo2": olmo2,
            "granitemoe": granitemoe, "granitemoeshared": lambda: granitemoe(shared=True), "granite4": lambda: granite4(0),
            "granite4_moe": lambda: granite4(EXPERTS), "deepseek_v2": deepseek_v2, "qwen3_5_moe": qwen3_5_moe}


def normal(draw: random.Random, middle: float, spread: float, count: int) -> bytes:
    """Values in bfloat16: some normal ones over and over."""
    some = [struct.pack("<f", draw.gauss(middle, spread))[2:] for _ in range(1021)]
    return b"".join(draw.choices(some, k=count))


def write(family: str, folder: pathlib.Path) -> pathlib.Path:
    """Writes the family's folder below `folder`: the same weights each time."""
    keys, layers = FAMILIES[family]()
    config = COMMON | keys
    shapes = {"model.embed_tokens.weight": [ROWS, HIDDEN], "model.norm.weight": [HIDDEN]}
    if family == "starcoder2":
        shapes["model.norm.bias"] = [HIDDEN]
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = [ROWS, HIDDEN]
    for i, layer in enumerate(layers):
        shapes |= named(f"model.layers.{i}.", layer)
    draw = random.Random(family)
    header, data = {}, bytearray()
    for name, shape in shapes.items():
        count = 1
        for size in shape:
            count *= size
        # Norms around 1, or around 0 where the family adds 1; matrices that keep the size of what they read.
        norm = len(shape) == 1 and name.endswith("weight")
        middle = 1.0 if norm and not (family == "qwen3_5_moe" and "linear_attn" not in name) else 0.0
        spread = 0.1 if len(shape) == 1 else 1.5 / shape[-1] ** 0.5 if "embed" not in name else 1.0
        begin = len(data)
        data += normal(draw, middle, spread, count)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    place = folder / family
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.json").write_text(json.dumps(config, indent=1))
    (place / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return place


if __name__ == "__main__":
    for name in sys.argv[2:] or FAMILIES:
        print(write(name, pathlib.Path(sys.argv[1])))
