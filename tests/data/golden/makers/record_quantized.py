#!/usr/bin/env python3
"""Records tiny random models whose matrices other programs quantise, and what transformers computes in float32 with the
matrices that these programs give back (README.md).

    record_quantized.py RECORDINGS [NAME...]

Makes RECORDINGS/quants/folders/NAME with config.json, model.safetensors and golden.safetensors, which pack.py packs.
Needs torch, transformers, accelerate, safetensors, and of each NAME its program: bitsandbytes, compressed-tensors,
nvidia-modelopt or mlx.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
from types import SimpleNamespace

import numpy
import torch
from safetensors.torch import load_file, save_file
from transformers import BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM

TOKENS = 48  # of the sequence
LAYERS = 2
# Rows of 96 are no whole blocks of 64; 30720 values are more than 256 of them.
SIZES = dict(vocab_size=96, hidden_size=96, intermediate_size=320, num_hidden_layers=LAYERS, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=False, bos_token_id=1,
             eos_token_id=2, pad_token_id=0)


def small_model(seed, **sizes):
    """Values are bfloat16 numbers."""
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**SIZES | sizes)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.copy_(1 + 0.2 * torch.randn_like(parameter))
            else:
                parameter.copy_(torch.randn_like(parameter) * (1 if "embed" in name else parameter.shape[1] ** -0.5))
            parameter.copy_(parameter.bfloat16().float())
    return model


def token_ids():
    return torch.randint(3, SIZES["vocab_size"], (TOKENS,), generator=torch.Generator().manual_seed(7))


def matrices(model):
    """Of the layers: the output matrix stays plain."""
    return {name: module.weight.detach() for name, module in model.named_modules()
            if isinstance(module, torch.nn.Linear) and name != "lm_head"}


def record(folder, model, dequantised):
    """What `model` computes with the matrices `dequantised`, by their modules' names."""
    assert set(dequantised) >= set(matrices(model))
    with torch.no_grad():
        for name, weight in dequantised.items():
            model.get_submodule(name).weight.copy_(weight.float())
        ids = token_ids()
        logits = model(ids[None]).logits[0]
    q_proj = dequantised[f"model.layers.{LAYERS - 1}.self_attn.q_proj"].float()
    save_file({"ids.1": ids.int(), "logits.1": logits.contiguous(), "q_proj.1": q_proj.contiguous()},
              folder / "golden.safetensors")


def write_folder(folder, model, parts, quantization, key="quantization_config"):
    """`parts`: the tensors that stand for each matrix, by their names behind its module's."""
    tensors = {name: tensor.bfloat16() for name, tensor in model.state_dict().items()}
    for module, named in parts.items():
        del tensors[module + ".weight"]
        tensors.update({f"{module}.{name}": tensor.contiguous() for name, tensor in named.items()})
    save_file(tensors, folder / "model.safetensors")
    config = {key: value for key, value in model.config.to_dict().items() if value is not None}
    config[key] = quantization
    (folder / "config.json").write_text(json.dumps(config, indent=1))


def bits_and_bytes(folder, seed, dtype, **options):
    """As transformers loads a plain model in fewer bits and saves it. Matrices are given back as one row: on a CPU,
    bitsandbytes 0.50.2 takes wrong scales for rows that are no whole blocks."""
    import bitsandbytes as bnb
    with tempfile.TemporaryDirectory() as plain:
        small_model(seed).to(dtype).save_pretrained(plain)
        quantised = LlamaForCausalLM.from_pretrained(plain, dtype=dtype, device_map="cpu",
                                                     quantization_config=BitsAndBytesConfig(**options))
    quantised.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    dequantised = {}
    for name, module in quantised.named_modules():
        if isinstance(module, bnb.nn.Linear4bit):
            state = module.weight.quant_state
            shape, state.shape = state.shape, torch.Size((1, state.shape.numel()))
            dequantised[name] = bnb.functional.dequantize_4bit(module.weight.data, state).reshape(shape)
        elif isinstance(module, bnb.nn.Linear8bitLt):
            codes, scales = module.weight.CB, module.weight.SCB
            dequantised[name] = bnb.functional.int8_vectorwise_dequant(codes, scales)
    record(folder, small_model(seed), dequantised)


def bnb_nf4(folder):
    bits_and_bytes(folder, 1, torch.bfloat16, load_in_4bit=True, bnb_4bit_quant_type="nf4",
                   bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.bfloat16)


def bnb_fp4(folder):
    bits_and_bytes(folder, 2, torch.float32, load_in_4bit=True, bnb_4bit_quant_type="fp4")


def bnb_int8(folder):
    bits_and_bytes(folder, 3, torch.float32, load_in_8bit=True)


def compressed_nvfp4(folder):
    """As compressed-tensors chooses scales and packs."""
    from compressed_tensors.compressors import NVFP4PackedCompressor
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.quantization import QuantizationScheme, preset_name_to_scheme
    from compressed_tensors.quantization.lifecycle.forward import dequantize
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
    model = small_model(4)
    args = preset_name_to_scheme("NVFP4A16", ["Linear"]).weights
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    parts, dequantised = {}, {}
    for name, weight in matrices(model).items():
        factor = generate_gparam(weight.min(), weight.max())
        groups = weight.unflatten(1, (-1, 16))
        scale, _ = calculate_qparams(groups.amin(-1), groups.amax(-1), args, global_scale=factor)
        packed = NVFP4PackedCompressor.compress(
            {"weight": weight, "weight_scale": scale, "weight_global_scale": factor}, scheme)
        codes = unpack_fp4_from_uint8(packed["weight_packed"], *weight.shape, dtype=torch.float32)
        dequantised[name] = dequantize(codes, packed["weight_scale"].float(), args=args, global_scale=factor,
                                       dtype=torch.float32)
        parts[name] = packed
    weights = json.loads(args.model_dump_json(exclude_none=True))
    write_folder(folder, model, parts,
                 {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized",
                  "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}, "ignore": ["lm_head"]})
    record(folder, model, dequantised)


def modelopt_nvfp4(folder):
    """As ModelOpt quantises them."""
    from modelopt.torch.quantization.qtensor import NVFP4QTensor
    model = small_model(5)
    parts, dequantised = {}, {}
    for name, weight in matrices(model).items():
        quantised, scale, factor = NVFP4QTensor.quantize(weight, 16)
        parts[name] = {"weight": quantised._quantized_data, "weight_scale": scale, "weight_scale_2": factor}
        dequantised[name] = quantised.dequantize(dtype=torch.float32, scale=scale, double_scale=factor,
                                                 block_sizes={-1: 16})
    write_folder(folder, model, parts,
                 {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16, "ignore": ["lm_head"]})
    record(folder, model, dequantised)


def fp8_stacks(folder):
    """The stacks of experts of qwen3_vl_moe, inputs first, as transformers brings them into fp8; a block holds outputs
    of gate and up."""
    from transformers import Qwen3VLMoeForConditionalGeneration
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize, Fp8Quantize
    config = {"quant_method": "fp8", "weight_block_size": [8, 16]}
    quantiser = SimpleNamespace(quantization_config=SimpleNamespace(weight_block_size=[8, 16], scale_fmt=None))
    source = pathlib.Path(__file__).parent / "qwen3_vl_moe"
    described = json.loads((source / "config.json").read_text())
    with tempfile.TemporaryDirectory() as plain:
        plain = pathlib.Path(plain)
        subprocess.run(["zstd", "-q", "-d", source / "model.safetensors.zst", "-o", plain / "model.safetensors"],
                       check=True)
        quantised, dequantised = {}, {}
        for name, tensor in load_file(plain / "model.safetensors").items():
            parts = {name: tensor}
            if ".mlp.experts." in name:
                parts = Fp8Quantize(quantiser).convert({name: tensor})
                tensor = Fp8Dequantize(quantiser)._dequantize_one(*parts.values(), torch.float32)
            quantised.update(parts)
            dequantised[name] = tensor.float()
        save_file(dequantised, plain / "model.safetensors", {"format": "pt"})
        (plain / "config.json").write_text(json.dumps(described))
        model = Qwen3VLMoeForConditionalGeneration.from_pretrained(plain, dtype=torch.float32).eval()
    save_file(quantised, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(described | {"quantization_config": config}, indent=1))
    with torch.no_grad():
        ids = token_ids()
        logits = model(ids[None]).logits[0]
    save_file({"ids.1": ids.int(), "logits.1": logits.contiguous()}, folder / "golden.safetensors")


def words_of(codes, bits):
    """Each row is one number, the first code in its lowest bits."""
    rows = [sum(int(code) << bits * i for i, code in enumerate(row)).to_bytes(len(row) * bits // 8, "little")
            for row in codes]
    return torch.frombuffer(bytearray(b"".join(rows)), dtype=torch.uint32).reshape(len(rows), -1)


def mlx(folder):
    """By the documentation of mx.quantize, with bits of every number that it has, and scales in bfloat16."""
    own = {"layers.0.self_attn.q_proj": (64, 2), "layers.0.self_attn.k_proj": (32, 4),
           "layers.0.self_attn.v_proj": (64, 5), "layers.0.mlp.gate_proj": (64, 8), "layers.0.mlp.down_proj": (128, 3),
           f"layers.{LAYERS - 1}.self_attn.q_proj": (32, 3), f"layers.{LAYERS - 1}.self_attn.o_proj": (32, 5),
           "embed_tokens": (64, 6)}
    own = {"model." + name: {"group_size": inputs, "bits": bits} for name, (inputs, bits) in own.items()}
    quantization = {"group_size": 64, "bits": 4, "mode": "affine", "model.norm": False} | own
    model = small_model(6, hidden_size=64, intermediate_size=128)
    parts, dequantised = {}, {}
    for name, weight in (matrices(model) | {"model.embed_tokens": model.model.embed_tokens.weight.detach(),
                                            "lm_head": model.lm_head.weight.detach()}).items():
        inputs, bits = (own.get(name, quantization)[key] for key in ("group_size", "bits"))
        groups = weight.unflatten(1, (-1, inputs)).double()
        low, high = groups.amin(-1), groups.amax(-1)
        scales, biases = ((high - low) / (2 ** bits - 1)).bfloat16(), low.bfloat16()
        codes = ((groups - biases.double()[..., None]) / scales.double()[..., None]).round().clamp(0, 2 ** bits - 1)
        parts[name] = {"weight": words_of(codes.flatten(1), bits), "scales": scales, "biases": biases}
        dequantised[name] = (scales.double()[..., None] * codes + biases.double()[..., None]).flatten(1).float()
    write_folder(folder, model, parts, quantization, key="quantization")
    record(folder, model, dequantised)


def small_floats_of_mlx(folder, seed, mode, own):
    """By mx.quantize and mx.dequantize, with embedding and output matrix. `own`: what other matrices have instead."""
    import mlx.core as mx
    model = small_model(seed, hidden_size=64, intermediate_size=32, head_dim=8)
    parts, dequantised = {}, {}
    for name, weight in (matrices(model) | {"model.embed_tokens": model.model.embed_tokens.weight.detach(),
                                            "lm_head": model.lm_head.weight.detach()}).items():
        options = own.get(name, {"mode": mode})
        words, scales, *biases = mx.quantize(mx.array(weight.numpy()), **options)
        values = mx.dequantize(words, scales, *biases, dtype=mx.float32, **options)
        named = {"weight": words, "scales": scales} | ({"biases": biases[0]} if biases else {})
        parts[name] = {part: torch.from_numpy(numpy.array(value)) for part, value in named.items()}
        dequantised[name] = torch.from_numpy(numpy.array(values))
    bits, inputs = {"mxfp4": (4, 32), "nvfp4": (4, 16), "mxfp8": (8, 32)}[mode]
    write_folder(folder, model, parts, {"group_size": inputs, "bits": bits, "mode": mode} | own, key="quantization")
    record(folder, model, dequantised)


def mlx_mxfp4(folder):
    small_floats_of_mlx(folder, 7, "mxfp4", {"model.embed_tokens": {"group_size": 64, "bits": 8},
                                             "model.layers.0.self_attn.q_proj": {"group_size": 32, "bits": 5}})


def mlx_nvfp4(folder):
    """Rows of 32 are no whole blocks of 64."""
    small_floats_of_mlx(folder, 8, "nvfp4", {"model.layers.0.mlp.up_proj": {"mode": "mxfp4"}})


def mlx_mxfp8(folder):
    small_floats_of_mlx(folder, 9, "mxfp8", {"lm_head": {"mode": "nvfp4", "group_size": 16, "bits": 4},
                                             "model.layers.0.mlp.down_proj": {"mode": "mxfp4", "group_size": 32}})


RECORDINGS = {make.__name__: make
              for make in (bnb_nf4, bnb_fp4, bnb_int8, compressed_nvfp4, modelopt_nvfp4, fp8_stacks, mlx, mlx_mxfp4,
                           mlx_nvfp4, mlx_mxfp8)}


def main():
    for name in sys.argv[2:] or RECORDINGS:
        folder = pathlib.Path(sys.argv[1]) / "quants/folders" / name
        folder.mkdir(parents=True, exist_ok=True)
        RECORDINGS[name](folder)


if __name__ == "__main__":
    main()
