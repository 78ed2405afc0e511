#!/usr/bin/env python3
"""Records tiny random assistants of Gemma 4 for two targets that lie here: what they draft by the classes of
transformers, and the GGUF files of llama.cpp's converter (README.md).

    record_assistants.py LLAMA_CPP RECORDINGS

LLAMA_CPP as of record_families.py. Makes RECORDINGS/NAME as that does, for pack.py. Needs what it needs, and zstd.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, Gemma4ForCausalLM, Gemma4TextConfig

from record_families import convert

HERE = pathlib.Path(__file__).parent
ROOTS = (5, 24, 60, 131)  # their places in the text; the window of the targets is 24
LEVELS = 3
TEXT = dict(vocab_size=272, hidden_size=16, num_hidden_layers=3, num_attention_heads=4, intermediate_size=24,
            max_position_embeddings=512, rms_norm_eps=1e-6, head_dim=16, global_head_dim=32,
            hidden_size_per_layer_input=0, vocab_size_per_layer_input=0, hidden_activation="gelu_pytorch_tanh",
            sliding_window=24,
            layer_types=["sliding_attention", "sliding_attention", "full_attention"], num_kv_shared_layers=3,
            tie_word_embeddings=True, torch_dtype="bfloat16", attention_bias=False, enable_moe_block=False,
            use_double_wide_mlp=False, bos_token_id=1, eos_token_id=2, pad_token_id=0)
# The target, its key-value heads and what the assistant is beside its layers.
ASSISTANTS = {
    "gemma4_assistant": ("gemma4", dict(num_key_value_heads=2, num_global_key_value_heads=1, attention_k_eq_v=True),
                         dict(architectures=["Gemma4UnifiedAssistantForCausalLM"],
                              model_type="gemma4_unified_assistant", use_ordered_embeddings=False)),
    "gemma4_e_assistant": ("gemma4_e", dict(num_key_value_heads=1, num_global_key_value_heads=None,
                                            attention_k_eq_v=False),
                           dict(architectures=["Gemma4AssistantForCausalLM"], model_type="gemma4_assistant",
                                use_ordered_embeddings=True, num_centroids=34, centroid_intermediate_top_k=5)),
}


def keys_of(name):
    target, heads, more = ASSISTANTS[name]
    keys = json.loads((HERE / target / "config.json").read_text())
    rope = keys.get("text_config", keys)["rope_parameters"]
    unified = more["model_type"].startswith("gemma4_unified")
    text = TEXT | heads | dict(rope_parameters=rope, model_type="gemma4_unified_text" if unified else "gemma4_text")
    if unified:
        text = {key: value for key, value in text.items() if "per_layer_input" not in key and "moe" not in key}
    return more | dict(backbone_hidden_size=64, tie_word_embeddings=True, torch_dtype="bfloat16", text_config=text)


def target_of(name):
    keys = json.loads((HERE / name / "config.json").read_text())
    config = Gemma4TextConfig(**{key: value for key, value in keys.get("text_config", keys).items()
                                 if key not in ("architectures", "model_type", "torch_dtype")})
    config._attn_implementation = "eager"
    model = Gemma4ForCausalLM(config).double().eval()
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        subprocess.run(["zstd", "-q", "-d", "-f", HERE / name / "model.safetensors.zst", "-o", file.name], check=True)
        stored = load_file(file.name)
    stored = {key.replace("model.language_model.", "model."): tensor.double() for key, tensor in stored.items()}
    missing, _ = model.load_state_dict(stored, strict=False)
    assert set(missing) <= {"lm_head.weight"}, missing
    model.tie_weights()
    return model


def assistant_of(keys, seed):
    given = {key: value for key, value in keys.items() if key not in ("architectures", "torch_dtype")}
    config = AutoConfig.for_model(**given)
    config._attn_implementation = config.text_config._attn_implementation = "eager"
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn_like(parameter)
            if parameter.ndim == 1 or "norm" in name:
                values = 1 + 0.2 * noise
            else:
                values = noise * (0.5 if "embed" in name else parameter.shape[-1] ** -0.5)
            parameter.copy_(values.bfloat16().float())
        for name, buffer in model.named_buffers():
            if name.endswith("layer_scalar"):
                buffer.copy_(torch.rand(1).add(0.5).bfloat16().float())
            if name.endswith("token_ordering"):
                buffer.copy_(torch.randperm(len(buffer)))
    return model


def record(target, assistant, window, name):
    ids = torch.randint(3, 272, (200,), generator=torch.Generator().manual_seed(9))
    seen = target.model(ids[None], use_cache=False, return_shared_kv_states=True)
    with_states = target(ids[None], use_cache=False, output_hidden_states=True)
    assert torch.equal(with_states.hidden_states[-1], seen.last_hidden_state), "features from before the norm"
    tokens, logits = [], []
    for root in ROOTS:
        # Of a window what the target's row at the root sees before itself.
        first = {"full_attention": 0, "sliding_attention": max(0, root - window + 1)}
        states = {kind: (k[:, :, first[kind]:root], v[:, :, first[kind]:root])
                  for kind, (k, v) in seen.shared_kv_states.items()}
        token, feature = ids[root].view(1, 1), seen.last_hidden_state[:, root - 1:root]
        for _ in range(LEVELS):
            pair = torch.cat([target.get_input_embeddings()(token), feature], dim=-1)
            out = assistant(inputs_embeds=pair, position_ids=torch.tensor([[root]]), shared_kv_states=states,
                            use_cache=False)
            row, feature = out.logits[0, 0], out.last_hidden_state
            if assistant.config.use_ordered_embeddings:  # the others have the least value
                row = torch.where(row == row.min(), -torch.inf, row)
            token = row.argmax().view(1, 1)
            tokens.append(int(token))
            logits.append(row.float())
            best = row.topk(2).values
            print(name, root, "margin", float(best[0] - best[1]))
    return {"chain.ids": ids.int(), "chain.roots": torch.tensor(ROOTS, dtype=torch.int32),
            "chain.tokens": torch.tensor(tokens, dtype=torch.int32), "chain.logits": torch.stack(logits).contiguous()}


def main():
    llama_cpp, recordings = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    torch.set_num_threads(1)
    for seed, (name, (target, _, _)) in enumerate(ASSISTANTS.items(), 1):
        keys = keys_of(name)
        folder = recordings / name / "hf"
        folder.mkdir(parents=True, exist_ok=True)
        assistant = assistant_of(keys, seed)
        tensors = {key: tensor.contiguous() if tensor.dtype == torch.long else tensor.bfloat16().contiguous()
                   for key, tensor in assistant.state_dict().items() if key != "lm_head.weight"}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(keys, indent=1))
        with torch.no_grad():
            golden = record(target_of(target), assistant.double(), keys["text_config"]["sliding_window"], name)
        save_file(golden, folder.parent / "golden.safetensors")
        words = folder / "tokenizer.json"  # which the converter counts
        words.write_text(json.dumps({"model": {"vocab": {str(i): i for i in range(272)}}, "added_tokens": []}))
        text = keys["text_config"] | dict(moe_intermediate_size=None)  # and this it asks for
        convert(llama_cpp, folder, folder.parent / "model.gguf", keys | dict(text_config=text))
        words.unlink()


if __name__ == "__main__":
    main()
