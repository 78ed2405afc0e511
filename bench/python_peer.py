"""Another engine with a Python interface, as a server that `talon bench spec` starts and asks like llama.cpp's.

usage: python_peer.py ENGINE --model FILE.gguf --port N --threads N [--context N] [--speculation KIND] [--draft FILE.gguf]
                      [--converted FOLDER]

ENGINE: transformers (weights of the file as float32) or openvino (OpenVINO GenAI, weights as in the file).
KIND: prompt-lookup; draft (transformers: assisted generation with the model in --draft); of openvino what
bench/openvino_eagle3.py has made of the model and the head in --draft, in FOLDER: eagle3, or none, which is plain
decoding of the same weights.
GET /health answers once the model is loaded, GET /props says as "build_info" which engine it is. POST /completion takes the fields of llama.cpp's server that it knows and
answers "tokens" without the end token, an empty "content" and "timings"; decoding is all after the first token.
scripts/python_peer.sh installs what it needs.
"""
import argparse
import hashlib
import json
import pathlib
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

DRAFT_TOKENS = 5  # of a lookup: what the engines' own examples take
NGRAM = 3
HEAD_TOKENS = 3  # of a head's chain


class Transformers:
    def __init__(self, args: argparse.Namespace):
        import torch
        import transformers
        self.version = f"transformers {transformers.__version__}, torch {torch.__version__}"
        self.torch = torch
        torch.set_num_threads(args.threads)
        self.model = self.load(args.model)
        self.ends = self.model.generation_config.eos_token_id
        self.ends = set(self.ends if isinstance(self.ends, list) else [self.ends])
        self.speculation = {}
        if args.speculation == "prompt-lookup":
            self.speculation = {"prompt_lookup_num_tokens": DRAFT_TOKENS, "max_matching_ngram_size": NGRAM}
        elif args.speculation == "draft":
            self.speculation = {"assistant_model": self.load(args.draft)}

    def load(self, file: str):
        from transformers import AutoModelForCausalLM
        path = pathlib.Path(file)
        return AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=self.torch.float32).eval()

    def answer(self, asked: dict) -> dict:
        drawn = {"do_sample": False}
        if asked["temperature"] > 0:
            drawn = {"do_sample": True, "temperature": asked["temperature"], "top_k": asked["top_k"] or 0, "top_p": asked["top_p"]}
        self.torch.manual_seed(asked["seed"])
        prompt = self.torch.tensor([asked["prompt"]])
        clock = PassClock()
        with self.torch.inference_mode():
            out = self.model.generate(prompt, attention_mask=self.torch.ones_like(prompt), max_new_tokens=asked["n_predict"],
                                      repetition_penalty=asked["repeat_penalty"], streamer=clock, **drawn, **self.speculation)
        return clock.timed(out[0, prompt.shape[1]:].tolist(), self.ends)


class PassClock:
    """What transformers calls a streamer: is shown the prompt, then the tokens of each pass."""

    def __init__(self):
        self.begin = time.perf_counter()
        self.shown, self.passes, self.first = 0, 0, self.begin

    def put(self, tokens) -> None:
        self.shown += 1
        if self.shown == 1:  # the prompt
            return
        self.passes += 1
        if self.passes == 1:
            self.first = time.perf_counter()

    def end(self) -> None:
        pass

    def timed(self, tokens: list, ends: set) -> dict:
        return reply(tokens, ends, (self.first - self.begin) * 1e3, (time.perf_counter() - self.first) * 1e3,
                     accepted=len(tokens) - self.passes)


class OpenVino:
    def __init__(self, args: argparse.Namespace):
        import openvino_genai
        self.genai = openvino_genai
        self.version = f"openvino_genai {openvino_genai.__version__}"
        settings = {"INFERENCE_NUM_THREADS": args.threads}
        model = args.model
        self.lookup = args.speculation == "prompt-lookup"
        self.head = args.speculation == "eagle3"
        if self.lookup:
            settings["prompt_lookup"] = True
        elif args.speculation in ("eagle3", "none"):
            converted = self.converted(args)
            model = str(converted / "target")
            if self.head:
                settings["draft_model"] = openvino_genai.draft_model(str(converted / "head"), "CPU", **settings)
        elif args.speculation:
            raise SystemExit(f"openvino: expected prompt-lookup, eagle3 or none, got {args.speculation}")
        self.pipeline = openvino_genai.LLMPipeline(model, "CPU", **settings)
        self.ends = set(self.pipeline.get_generation_config().stop_token_ids)
        self.ends.add(self.pipeline.get_tokenizer().get_eos_token_id())

    def converted(self, args: argparse.Namespace) -> pathlib.Path:
        """The folder, if it was made of these two files."""
        folder = pathlib.Path(args.converted or ".")
        note = folder / "made.json"
        made = json.loads(note.read_text()) if note.exists() else {}
        for name, file in (("model", args.model), ("head", args.draft)):
            if not file or made.get(name) != hashlib.sha256(pathlib.Path(file).read_bytes()).hexdigest():
                raise SystemExit(f"openvino: {folder}: expected what scripts/python_peer.sh openvino-eagle3 makes of {args.model} "
                                 f"and the head {args.draft}, found that of others or nothing")
        return folder

    def answer(self, asked: dict) -> dict:
        import numpy
        import openvino
        config = self.genai.GenerationConfig()
        config.max_new_tokens = asked["n_predict"]
        config.stop_token_ids = self.ends
        config.repetition_penalty = asked["repeat_penalty"]
        config.do_sample = asked["temperature"] > 0
        if config.do_sample:
            config.temperature, config.top_p, config.rng_seed = asked["temperature"], asked["top_p"], asked["seed"]
            if asked["top_k"] > 0:
                config.top_k = asked["top_k"]
        if self.lookup:
            config.num_assistant_tokens, config.max_ngram_size = DRAFT_TOKENS, NGRAM
        if self.head:
            config.num_assistant_tokens = HEAD_TOKENS
        passes = []
        begin = time.perf_counter()
        result = self.pipeline.generate(openvino.Tensor(numpy.array([asked["prompt"]], dtype=numpy.int64)), config,
                                        streamer=StepClock(self.genai, passes).streamer)
        end = time.perf_counter()
        tokens = list(result.tokens[0])
        first = passes[0] if passes else end
        return reply(tokens, self.ends, (first - begin) * 1e3, (end - first) * 1e3, accepted=len(tokens) - len(passes))


class StepClock:
    """Notes when each step of OpenVINO GenAI has given its tokens."""

    def __init__(self, genai, passes: list):
        class Streamer(genai.StreamerBase):
            def write(self, token) -> "genai.StreamingStatus":
                passes.append(time.perf_counter())
                return genai.StreamingStatus.RUNNING

            def end(self) -> None:
                pass
        self.streamer = Streamer()


def reply(tokens: list, ends: set, prompt_ms: float, predicted_ms: float, accepted: int) -> dict:
    """accepted: tokens that needed no pass of their own."""
    text = tokens[:-1] if tokens and tokens[-1] in ends else tokens
    return {"content": "", "tokens": text,
            "timings": {"prompt_ms": prompt_ms, "predicted_ms": predicted_ms, "predicted_n": len(tokens),
                        "draft_n_accepted": max(accepted, 0)}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def send(self, status: int, value: dict) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if self.path == "/props":
            self.send(200, {"build_info": self.server.engine.version})
        else:
            self.send(200 if self.path == "/health" else 404, {})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            self.send(200, self.server.engine.answer(asked))
        except Exception as error:  # the bench shows what went wrong
            self.send(500, {"error": f"{type(error).__name__}: {error}"})

    def log_message(self, *_) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=("transformers", "openvino"))
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--context", type=int)
    parser.add_argument("--speculation", choices=("prompt-lookup", "draft", "eagle3", "none"))
    parser.add_argument("--draft")
    parser.add_argument("--converted")
    args = parser.parse_args()
    engine = {"transformers": Transformers, "openvino": OpenVino}[args.engine](args)
    server = HTTPServer(("127.0.0.1", args.port), Handler)
    server.engine = engine
    server.serve_forever()


if __name__ == "__main__":
    main()
