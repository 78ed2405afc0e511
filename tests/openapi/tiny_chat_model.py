"""Writes a GGUF file of stories260K with a chat template: the smallest model that answers chats, for tests of the server.

usage: tiny_chat_model.py STORIES260K.bin TOK512.bin OUT.gguf
"""
import struct
import sys

TEMPLATE = ("{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
            "{% if add_generation_prompt %}assistant:{% endif %}")
UINT32, FLOAT32, STRING, ARRAY, INT32, BOOL = 4, 6, 8, 9, 5, 7
ALIGNMENT = 32


def text(value: bytes | str) -> bytes:
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def scalar(kind: int, value) -> bytes:
    return text(value) if kind == STRING else struct.pack({UINT32: "<I", FLOAT32: "<f", INT32: "<i", BOOL: "<?"}[kind], value)


def entry(key: str, kind: int, value) -> bytes:
    return text(key) + struct.pack("<I", kind) + scalar(kind, value)


def array(key: str, kind: int, values) -> bytes:
    return text(key) + struct.pack("<IIQ", ARRAY, kind, len(values)) + b"".join(scalar(kind, value) for value in values)


def read_tokens(path: str) -> list[tuple[float, bytes]]:
    data = open(path, "rb").read()
    tokens, at = [], 4
    while at < len(data):
        score, size = struct.unpack_from("<fi", data, at)
        tokens.append((score, data[at + 8:at + 8 + size]))
        at += 8 + size
    return tokens


def main(model: str, tokenizer: str, out: str) -> None:
    data = open(model, "rb").read()
    dim, hidden, layers, heads, kv_heads, vocabulary, context = struct.unpack_from("<7i", data)
    vocabulary, head = abs(vocabulary), dim // heads
    at = 28

    def take(*shape: int) -> tuple[tuple[int, ...], bytes]:
        nonlocal at
        size = 4
        for extent in shape:
            size *= extent
        at += size
        return shape, data[at - size:at]

    def of_layers(*shape: int) -> list[tuple[tuple[int, ...], bytes]]:
        return [take(*shape) for _ in range(layers)]

    tensors = {"token_embd.weight": take(vocabulary, dim)}
    parts = {"attn_norm": of_layers(dim), "attn_q": of_layers(dim, dim), "attn_k": of_layers(kv_heads * head, dim),
             "attn_v": of_layers(kv_heads * head, dim), "attn_output": of_layers(dim, dim), "ffn_norm": of_layers(dim),
             "ffn_gate": of_layers(hidden, dim), "ffn_down": of_layers(dim, hidden), "ffn_up": of_layers(hidden, dim)}
    tensors |= {f"blk.{i}.{name}.weight": tensor for name, all_ in parts.items() for i, tensor in enumerate(all_)}
    tensors["output_norm.weight"] = take(dim)

    tokens = read_tokens(tokenizer)[:vocabulary]
    pieces = [piece.replace(b" ", "\u2581".encode()) for _, piece in tokens]
    pieces[:3] = [b"<unk>", b"<s>", b"</s>"]
    pieces[3:259] = [b"<0x%02X>" % byte for byte in range(256)]
    kinds = [2, 3, 3] + [6] * 256 + [1] * (vocabulary - 259)
    metadata = [
        entry("general.architecture", STRING, "llama"), entry("general.name", STRING, "stories260K with a chat template"),
        entry("llama.block_count", UINT32, layers), entry("llama.context_length", UINT32, context),
        entry("llama.embedding_length", UINT32, dim), entry("llama.feed_forward_length", UINT32, hidden),
        entry("llama.attention.head_count", UINT32, heads), entry("llama.attention.head_count_kv", UINT32, kv_heads),
        entry("llama.rope.dimension_count", UINT32, head), entry("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
        entry("llama.vocab_size", UINT32, vocabulary), entry("tokenizer.ggml.model", STRING, "llama"),
        array("tokenizer.ggml.tokens", STRING, pieces), array("tokenizer.ggml.scores", FLOAT32, [score for score, _ in tokens]),
        array("tokenizer.ggml.token_type", INT32, kinds), entry("tokenizer.ggml.bos_token_id", UINT32, 1),
        entry("tokenizer.ggml.eos_token_id", UINT32, 2), entry("tokenizer.ggml.add_bos_token", BOOL, True),
        entry("tokenizer.chat_template", STRING, TEMPLATE)]

    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)) + b"".join(metadata)
    offset, body = 0, b""
    for name, (shape, raw) in tensors.items():
        header += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", extent) for extent in reversed(shape))
        header += struct.pack("<IQ", 0, offset)
        body += raw + bytes(-len(raw) % ALIGNMENT)
        offset = len(body)
    with open(out, "wb") as file:
        file.write(header + bytes(-len(header) % ALIGNMENT) + body)


if __name__ == "__main__":
    main(*sys.argv[1:4])
