#!/usr/bin/env python3
"""Packs recordings of tiny models (README.md says what they are) for the tests.

    pack.py RECORDINGS FAMILY...

RECORDINGS/FAMILY holds hf/ (config.json, model.safetensors), golden.safetensors and maybe model.gguf. A name that begins
with quants/folders/ is that of a quantised folder (config.json, model.safetensors, golden.safetensors), which goes to
../quantized.
"""
import json
import pathlib
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
KEPT_ROWS = 24  # of the logits of sequences 1 and 2


def read_safetensors(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"],
                   data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]])
            for name, entry in header.items()}


def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def last_rows(tensor, rows):
    dtype, shape, data = tensor
    kept = min(rows, shape[0])
    return dtype, [kept] + shape[1:], data[len(data) // shape[0] * (shape[0] - kept):]


def keep(golden, gguf):
    kept = {}
    for name, tensor in golden.items():
        if name.startswith(("ids.", "greedy.", "greedy_margin.", "chain.")):
            kept[name] = tensor
        elif name.startswith("logits."):
            kept[name] = tensor if name == "logits.0" else last_rows(tensor, KEPT_ROWS)
        elif name.startswith("mtp.") or (name == "tap.final" and "mtp.logits" in golden):
            kept[name] = tensor  # what a prediction layer reads and gives
        elif name.startswith("tap."):
            kept[name] = last_rows(tensor, 4)
    for name, tensor in gguf.items():
        if name.startswith("logits."):
            kept["gguf." + name] = last_rows(tensor, KEPT_ROWS)
    return kept


def zstd(source, target, *options):
    subprocess.run(["zstd", "-q", "-f", "-19", "--ultra", *options, str(source), "-o", str(target)], check=True)


def pack_quantized(source, target):
    target.mkdir(exist_ok=True, parents=True)
    (target / "config.json").write_text((source / "config.json").read_text())
    zstd(source / "model.safetensors", target / "model.safetensors.zst")
    golden = read_safetensors(source / "golden.safetensors")
    golden["logits.1"] = last_rows(golden["logits.1"], KEPT_ROWS)
    plain = target / "golden.safetensors"
    write_safetensors(plain, golden)
    zstd(plain, target / "golden.safetensors.zst")
    plain.unlink()


def main():
    recordings = pathlib.Path(sys.argv[1])
    for family in sys.argv[2:]:
        if family.startswith("quants/folders/"):
            pack_quantized(recordings / family, HERE.parent / "quantized" / pathlib.Path(family).name)
            continue
        source, target = recordings / family, HERE / family
        target.mkdir(exist_ok=True)
        (target / "config.json").write_text((source / "hf/config.json").read_text())
        weights = source / "hf/model.safetensors"
        zstd(weights, target / "model.safetensors.zst")
        if (source / "model.gguf").exists():
            zstd(source / "model.gguf", target / "model.gguf.patch.zst", f"--patch-from={weights}")
        if (source / "mtp.gguf").exists():  # that of a converter which was told to keep prediction layers
            zstd(source / "mtp.gguf", target / "mtp.gguf.patch.zst", f"--patch-from={weights}")
        other = source / "golden_gguf.safetensors"
        tensors = keep(read_safetensors(source / "golden.safetensors"),
                       read_safetensors(other) if other.exists() else {})
        plain = target / "golden.safetensors"
        write_safetensors(plain, tensors)
        zstd(plain, target / "golden.safetensors.zst")
        plain.unlink()


if __name__ == "__main__":
    main()
