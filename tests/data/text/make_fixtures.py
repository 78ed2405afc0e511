"""Makes the small tokenizers in this folder and golden.json: what their reference implementations do with many texts.

    python3 -m venv venv && venv/bin/pip install sentencepiece==0.2.1 tokenizers==0.22.2
    venv/bin/python make_fixtures.py

Trained on the questions of ../spec_bench_dev.jsonl. golden.json: per folder a list of {"text", "ids", "decoded"}, without start
tokens; "decoded" only where the reference decodes token by token as Talon does.
"""

import json
import pathlib
import random

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def corpus():
    for line in open(HERE / "../spec_bench_dev.jsonl", encoding="utf-8"):
        yield from json.loads(line)["turns"][0].splitlines()


def texts():
    rng = random.Random(7)
    fixed = [
        "", " ", "  ", "\n", "\t\t x", "Hello, world!", " leading", "trailing ", "two  spaces   three", "line\r\nbreak\n\n",
        "1234567890 3.14 1,000,000", "I'm you're WE'LL it's", "naïve café Zürich Straße", "日本語のテキスト", "한국어 中文",
        "emoji 👩‍👩‍👧‍👦 🇩🇪 ☺️", "ｆｕｌｌｗｉｄｔｈ ①②③ ﬁ", "e\u0301 vs \u00e9", "\u2581already\u2581marked", "a\u0000b\u0001", "\u200b\ufeff",
        "def f(x):\n    return x ** 2\n", "<s>not special</s>", "𝕏 𐍈 \U0010ffff", "   ", "mixed\u00a0space\u3000wide",
        "<sep>", "a<sep>b", "x <sep> y", "<unk>", "https://example.org/?q=1&r=%20#top", "А роза упала на лапу Азора",
    ]
    pool = "abcdefgh ETAOIN  .,!?\n\t0123456789éüßñλжאبहि中あ한🙂\u0301\u2581<>|'\"\\"
    drawn = ["".join(rng.choice(pool) for _ in range(rng.randrange(1, 40))) for _ in range(150)]
    lines = [line for line in corpus() if line.strip()]
    return fixed + drawn + [line[:200] for line in rng.sample(lines, 30)]


def train_sentencepiece(folder, **options):
    (HERE / folder).mkdir(exist_ok=True)
    with open(HERE / folder / "tokenizer.model", "wb") as out:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=corpus(), model_writer=out, num_threads=1, minloglevel=2, **options)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(HERE / folder / "tokenizer.model"))
    return [{"text": text, "ids": processor.encode(text)} for text in texts()]


def save(folder, tokenizer, files):
    (HERE / folder).mkdir(exist_ok=True)
    tokenizer.save(str(HERE / folder / "tokenizer.json"))
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content, indent=1)
        (HERE / folder / name).write_text(text, encoding="utf-8")
    cases = texts() + ["<|im_start|>user\nHi<|im_end|>\n", "a <|endoftext|> b", "<s> x</s>y"]
    golden = []
    for text in cases:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        golden.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False)})
    return golden


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=600, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False)])
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=64)
    template = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + eos_token + '\n' }}{% endfor %}"
    files = {
        "tokenizer_config.json": {
            "bos_token": None, "eos_token": {"content": "<|im_end|>", "special": True}, "add_bos_token": False,
            "chat_template": [{"name": "rag", "template": "no"}, {"name": "default", "template": template}]},
        "generation_config.json": {"eos_token_id": [602, 600]},
    }
    reference = Tokenizer.from_str(tokenizer.to_str())
    reference.no_truncation()
    reference.no_padding()
    golden = save("byte_level", reference, files)
    tokenizer.save(str(HERE / "byte_level" / "tokenizer.json"))
    return golden


def llama_style():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    special = ["<unk>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(
        vocab_size=700, show_progress=False, max_token_length=12, special_tokens=special + [f"<0x{b:02X}>" for b in range(256)])
    tokenizer.train_from_iterator(corpus(), trainer)
    vocabulary = json.loads(tokenizer.to_str())
    vocabulary["added_tokens"] = [t for t in vocabulary["added_tokens"] if t["content"] in special]
    for token in vocabulary["added_tokens"]:
        token["normalized"] = False
    tokenizer = Tokenizer.from_str(json.dumps(vocabulary))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)])
    return save("llama_style", tokenizer, {
        "special_tokens_map.json": {"bos_token": "<s>", "eos_token": "</s>"},
        "chat_template.jinja": "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"})


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=400, show_progress=False, special_tokens=["<unk>", "</s>"], unk_token="<unk>")
    tokenizer.train_from_iterator(corpus(), trainer)
    return save("unigram", tokenizer, {})


def main():
    golden = {
        "spm_bpe": train_sentencepiece(
            "spm_bpe", model_type="bpe", vocab_size=700, byte_fallback=True, character_coverage=0.999,
            normalization_rule_name="identity", remove_extra_whitespaces=False, user_defined_symbols=["<sep>"],
            split_digits=True, allow_whitespace_only_pieces=True),
        "spm_unigram": train_sentencepiece(
            "spm_unigram", model_type="unigram", vocab_size=400, character_coverage=0.999,
            normalization_rule_tsv=str(HERE / "rules.tsv")),
        "byte_level": byte_level(),
        "llama_style": llama_style(),
        "unigram": unigram(),
    }
    lines = {name: "[\n" + ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases) + "\n]" for name, cases in golden.items()}
    text = "{\n" + ",\n".join(f'"{name}": {cases}' for name, cases in lines.items()) + "\n}\n"
    (HERE / "golden.json").write_text(text, encoding="utf-8")


main()
