"""A GGUF model and its EAGLE-3 head as OpenVINO reads them, so that OpenVINO GenAI drafts with the head that Talon drafts with.

usage: openvino_eagle3.py MODEL.gguf HEAD.gguf OUT

Both are made Hugging Face folders (the head with the names that EAGLE's own checkpoints have) and exported by
optimum-intel, matrices in 8 bits: OUT/target, OUT/head, and OUT/made.json with the SHA-256 of the two files.
GenAI takes the features of its own choice, those of layers 2, n / 2 and n - 3: another head is refused.
"""
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import gguf
import numpy
import torch
from safetensors.torch import save_file

NAMES = {"fc.weight": "fc.weight", "blk.0.attn_norm.weight": "midlayer.input_layernorm.weight",
         "blk.0.attn_norm_2.weight": "midlayer.hidden_norm.weight", "blk.0.attn_q.weight": "midlayer.self_attn.q_proj.weight",
         "blk.0.attn_k.weight": "midlayer.self_attn.k_proj.weight", "blk.0.attn_v.weight": "midlayer.self_attn.v_proj.weight",
         "blk.0.attn_output.weight": "midlayer.self_attn.o_proj.weight",
         "blk.0.ffn_norm.weight": "midlayer.post_attention_layernorm.weight", "blk.0.ffn_gate.weight": "midlayer.mlp.gate_proj.weight",
         "blk.0.ffn_up.weight": "midlayer.mlp.up_proj.weight", "blk.0.ffn_down.weight": "midlayer.mlp.down_proj.weight",
         "output_norm.weight": "norm.weight", "output.weight": "lm_head.weight"}


class Gguf:
    def __init__(self, file: pathlib.Path):
        self.reader = gguf.GGUFReader(file)
        self.tensors = {tensor.name: tensor for tensor in self.reader.tensors}

    def key(self, name: str):
        return self.reader.fields[name].contents()

    def values(self, name: str) -> torch.Tensor:
        tensor = self.tensors[name]
        return torch.tensor(numpy.array(gguf.dequantize(tensor.data, tensor.tensor_type), dtype=numpy.float32))


def half_split(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """GGUF has the rows that turn together beside each other, Hugging Face half a head apart."""
    return rows.reshape(heads, -1, 2, rows.shape[1]).transpose(1, 2).reshape(rows.shape).contiguous()


def write_head(head: Gguf, target: Gguf, folder: pathlib.Path) -> None:
    def size(name: str):
        return head.key("eagle3." + name)

    layers = target.key(target.key("general.architecture") + ".block_count")
    usual = [2, layers // 2, layers - 3]
    if list(size("extract_layers")) != usual:
        sys.exit(f"openvino_eagle3: eagle3.extract_layers: expected {usual}, as OpenVINO GenAI takes, found {list(size('extract_layers'))}")
    tensors = {name: head.values(of) for of, name in NAMES.items()}
    for name, heads in (("q", "attention.head_count"), ("k", "attention.head_count_kv")):
        name = f"midlayer.self_attn.{name}_proj.weight"
        tensors[name] = half_split(tensors[name], size(heads))
    tokens = torch.tensor(head.tensors["d2t"].data.view(numpy.int64).copy()).flatten()  # ids of the target
    vocabulary = size("vocab_size")
    tensors["d2t"] = tokens - torch.arange(len(tokens))
    tensors["t2d"] = torch.zeros(vocabulary, dtype=torch.bool).index_fill(0, tokens, True)
    tensors["embed_tokens.weight"] = target.values("token_embd.weight")
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "num_hidden_layers": 1,
              "hidden_size": size("embedding_length"), "intermediate_size": size("feed_forward_length"),
              "num_attention_heads": size("attention.head_count"), "num_key_value_heads": size("attention.head_count_kv"),
              "head_dim": size("attention.key_length"), "max_position_embeddings": size("context_length"),
              "rms_norm_eps": size("attention.layer_norm_rms_epsilon"), "rope_theta": size("rope.freq_base"),
              "vocab_size": vocabulary, "draft_vocab_size": len(tokens), "hidden_act": "silu", "torch_dtype": "float32",
              "tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(config))


def write_target(file: pathlib.Path, folder: pathlib.Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer
    AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype="float32").save_pretrained(folder)
    AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(folder)


def export(folder: pathlib.Path, out: pathlib.Path) -> None:
    program = pathlib.Path(sys.executable).parent / "optimum-cli"
    subprocess.run([program, "export", "openvino", "-m", folder, out, "--task", "text-generation-with-past", "--trust-remote-code",
                    "--weight-format", "int8"], check=True)


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    model, head, out = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    made = {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in (("model", model), ("head", head))}
    note = out / "made.json"
    if note.exists() and json.loads(note.read_text()) == made:
        return
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_head(Gguf(head), Gguf(model), folder / "head")
        write_target(model, folder / "target")
        for part in ("head", "target"):
            export(folder / part, out / part)
    note.write_text(json.dumps(made))


main()
