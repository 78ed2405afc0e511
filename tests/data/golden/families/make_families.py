"""Makes the tiny random models beside this file and records what transformers computes with them.

python make_families.py    (torch, transformers, safetensors; see README.md for the versions used)
"""
import json
import pathlib

import torch
from transformers import (LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

COMMON = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=256, bos_token_id=1, eos_token_id=[2, 3],
              rms_norm_eps=1e-5, dtype="bfloat16")
ROWS = 40


def rope(**keys):
    return dict(rope_parameters=dict(rope_theta=10000.0, **keys))


MODELS = {
    "llama3_scaling_bias": (LlamaForCausalLM, LlamaConfig(
        **COMMON, attention_bias=True, tie_word_embeddings=False,
        **rope(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
               original_max_position_embeddings=32))),
    "llama_yarn": (LlamaForCausalLM, LlamaConfig(
        **COMMON, tie_word_embeddings=True,
        **rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=64))),
    "llama_linear": (LlamaForCausalLM, LlamaConfig(
        **COMMON, tie_word_embeddings=False, **rope(rope_type="linear", factor=2.5))),
    "mistral_window": (MistralForCausalLM, MistralConfig(
        **COMMON, sliding_window=7, head_dim=8, tie_word_embeddings=False)),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**COMMON, tie_word_embeddings=True)),
    "qwen2_window": (Qwen2ForCausalLM, Qwen2Config(
        **COMMON, use_sliding_window=True, sliding_window=5, max_window_layers=0, tie_word_embeddings=False)),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**COMMON, head_dim=16, tie_word_embeddings=True)),
}


def make(name, model_class, config):
    torch.manual_seed(7)
    config._attn_implementation = "eager"
    model = model_class(config).float()
    with torch.no_grad():
        for parameter in model.parameters():  # larger than the usual start, so that every part matters
            parameter.copy_(torch.randn_like(parameter) * 0.25 + (1.0 if parameter.dim() == 1 else 0.0))
            parameter.copy_(parameter.bfloat16().float())
    model.eval()
    ids = torch.randint(0, config.vocab_size, (1, ROWS))
    with torch.no_grad():
        logits = model(ids).logits[0]
    folder = pathlib.Path(__file__).parent / name
    folder.mkdir(exist_ok=True)
    model.bfloat16().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    expected = dict(ids=ids[0].tolist(), logits=[[round(v, 5) for v in row] for row in logits.tolist()])
    (folder / "expected.json").write_text(json.dumps(expected))


for model_name, (cls, cfg) in MODELS.items():
    make(model_name, cls, cfg)
