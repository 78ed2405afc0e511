#include "bench/peer/peer.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "bench/peer/peer_http.h"
#include "bench/peer/peer_process.h"
#include "core/error.h"
#include "io/json.h"
#include "io/sha256.h"

namespace talon::peer_test {
namespace {

/// An OpenAI-compatible server that says what the test tells it to.
class FakeServer {
 public:
  FakeServer() {
    server_.Get("/v1/models", [this](const httplib::Request&, httplib::Response& reply) {
      reply.set_content(models, "application/json");
    });
    server_.Post("/v1/completions",
                 [this](const httplib::Request& request, httplib::Response& reply) {
                   bodies.push_back(Json::parse(request.body));
                   const bool ids = bodies.back()["prompt"].is_array();
                   if (ids && !takes_ids) {
                     reply.status = 422;
                     reply.set_content("{\"error\":\"no ids\"}", "application/json");
                     return;
                   }
                   reply.status = status;
                   reply.set_content(stream, "text/event-stream");
                 });
    server_.Get("/slow", [](const httplib::Request&, httplib::Response& reply) {
      std::this_thread::sleep_for(std::chrono::seconds(3));
      reply.set_content("late", "text/plain");
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~FakeServer() {
    server_.stop();
    thread_.join();
  }
  std::string url(const std::string& path = "/v1") const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
  }

  std::string models = "{\"data\":[{\"id\":\"small\"}]}";
  std::string stream =
      "data: {\"choices\":[{\"text\":\"Once upon\"}]}\n\n"
      "data: {\"choices\":[{\"text\":\" a time\"}]}\n\n"
      "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n";
  int status = 200;
  bool takes_ids = true;
  std::vector<Json> bodies;  // read between requests only

 private:
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

const Tokenizer& tokenizer() {
  static const Tokenizer kTokenizer = Tokenizer::for_checkpoint(
      open_checkpoint(std::string(TALON_TEST_DATA) + "/models/stories260K.bin"));
  return kTokenizer;
}

Request small_request() {
  Request request;
  request.prompt = tokenizer().encode("Tell me a story", {.add_start = true});
  request.max_new = 8;
  request.seed = 5;
  return request;
}

std::unique_ptr<Contestant> openai(const std::string& url) {
  return make_peer(parse_peer("peer:openai=" + url), {"model.gguf", tokenizer(), 1, 512});
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(OpenaiPeer, IsSentIdsAndSettingsAndAnswersInTokens) {
  FakeServer server;
  const auto peer = openai(server.url() + "/");
  const Request request = small_request();
  const TurnAnswer answer = peer->answer(request, nullptr);
  EXPECT_EQ(answer.text, "Once upon a time");
  EXPECT_EQ(answer.tokens, tokenizer().encode("Once upon a time"));
  EXPECT_GE(answer.decode_ms, 0);
  EXPECT_FALSE(peer->claims_same_tokens());
  ASSERT_EQ(server.bodies.size(), 1u);
  const Json& body = server.bodies.front();
  EXPECT_EQ(body["model"], "small");
  EXPECT_EQ(body["prompt"], Json(request.prompt));
  EXPECT_EQ(body["max_tokens"], 8);
  EXPECT_EQ(body["seed"], 5);
  EXPECT_EQ(body["temperature"], 0);
}

TEST(OpenaiPeer, IsToldTheWholeSampler) {
  FakeServer server;
  Request request = small_request();
  request.sampler.min_p = 0.25;
  request.sampler.banned = {7};
  openai(server.url())->answer(request, nullptr);
  EXPECT_EQ(server.bodies.front()["min_p"], 0.25);
  EXPECT_EQ(server.bodies.front()["logit_bias"], Json({{"7", -100}}));
}

TEST(OpenaiPeer, MayWriteEventsWithoutASpace) {
  FakeServer server;
  server.stream = "data:{\"choices\":[{\"text\":\"Once\"}]}\r\n\r\ndata:[DONE]\r\n\r\n";
  EXPECT_EQ(openai(server.url())->answer(small_request(), nullptr).text, "Once");
}

TEST(OpenaiPeer, ThatRefusesIdsIsSentTextFromThenOn) {
  FakeServer server;
  server.takes_ids = false;
  const auto peer = openai(server.url());
  EXPECT_EQ(peer->answer(small_request(), nullptr).text, "Once upon a time");
  peer->answer(small_request(), nullptr);
  ASSERT_EQ(server.bodies.size(), 3u);
  EXPECT_TRUE(server.bodies[1]["prompt"].is_string());
  EXPECT_TRUE(server.bodies[2]["prompt"].is_string());
}

TEST(OpenaiPeer, OfANamedModelIsNotAskedForItsModels) {
  FakeServer server;
  server.models = "nonsense";
  openai(server.url() + "#other")->answer(small_request(), nullptr);
  EXPECT_EQ(server.bodies.front()["model"], "other");
  EXPECT_NE(message_of([&] { openai(server.url()); }).find("nonsense"), std::string::npos);
}

TEST(OpenaiPeer, ThatFailsIsAnErrorWithWhatItSaid) {
  FakeServer server;
  const auto peer = openai(server.url());
  server.status = 500;
  server.stream = "out of memory";
  const std::string refused = message_of([&] { peer->answer(small_request(), nullptr); });
  EXPECT_NE(refused.find("500"), std::string::npos) << refused;
  EXPECT_NE(refused.find("out of memory"), std::string::npos) << refused;
  EXPECT_TRUE(server.bodies.back()["prompt"].is_array()) << "not asked again with text";
  server.status = 200;
  server.stream = "data: {\"choices\":[{\"text\":\"Once upon\"}]}\n\n";
  const std::string cut = message_of([&] { peer->answer(small_request(), nullptr); });
  EXPECT_NE(cut.find("broke off"), std::string::npos) << cut;
  server.stream = "data: {\"error\":{\"message\":\"broken\"}}\n\n";
  const std::string broken = message_of([&] { peer->answer(small_request(), nullptr); });
  EXPECT_NE(broken.find("broken"), std::string::npos) << broken;
}

TEST(OpenaiPeer, ThatDiesIsAnErrorAndNoCrash) {
  auto server = std::make_unique<FakeServer>();
  const auto peer = openai(server->url());
  server.reset();
  EXPECT_NE(message_of([&] { peer->answer(small_request(), nullptr); }).find("peer:openai"),
            std::string::npos);
}

TEST(HttpRequests, EndSoonAfterTheStopFlagIsSet) {
  FakeServer server;
  StopFlag stop;
  stop.request();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(http_request("test", server.url("/slow"), nullptr, &stop), Error);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(2500));
}

TEST(PeerProcesses, EndWithTheirOwner) {
  auto process = std::make_unique<PeerProcess>(std::vector<std::string>{"/bin/sleep", "1000"});
  EXPECT_TRUE(process->running());
  const auto start = std::chrono::steady_clock::now();
  process.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(PeerProcesses, ThatEndTellWhatTheySaid) {
  PeerProcess process({"/bin/sh", "-c", "echo first; echo cannot load model >&2; exit 3"});
  while (process.running()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_NE(process.last_output().find("cannot load model"), std::string::npos);
}

TEST(PeerProcesses, OfProgramsThatDoNotExistAreAnError) {
  EXPECT_THROW(PeerProcess({"/no/such/program"}), Error);
}

TEST(LlamaPeer, WithoutServerOrGgufSaysWhatWasExpected) {
  const PeerChoice choice = parse_peer("peer:llama.cpp=/no/such/folder");
  EXPECT_NE(message_of([&] {
              make_peer(choice, {"m.bin", tokenizer(), 1, 512});
            }).find("GGUF"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              make_peer(choice, {"m.gguf", tokenizer(), 1, 512});
            }).find("/no/such/folder"),
            std::string::npos);
  const PeerChoice drafting = parse_peer("peer:llama.cpp:draft-eagle3=/opt/llama#no/head.gguf");
  EXPECT_NE(message_of([&] {
              make_peer(drafting, {"m.gguf", tokenizer(), 1, 512});
            }).find("found no file no/head.gguf"),
            std::string::npos);
}

/// A program that behaves as llama-server does: reads --port, answers /health, /props and
/// /completion, here with the file that it drafts with. As builds since 0.5 it refuses a window of
/// the penalties below 0.
constexpr const char* kFakeLlama = R"(#!/usr/bin/env python3
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
def argument(name): return sys.argv[sys.argv.index(name) + 1]
answered = 0
class Handler(BaseHTTPRequestHandler):
    def reply(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.reply({"build_info": "b12-abc"} if self.path == "/props" else {"status": "ok"})
    def do_POST(self):
        global answered
        answered += 1
        if answered > 1: sys.exit(1)
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if asked["repeat_last_n"] != len(asked["prompt"]) + asked["n_predict"]: sys.exit(1)
        self.reply({"content": argument("--spec-draft-model"), "tokens": asked["prompt"][:3],
                    "timings": {"prompt_ms": 4.0, "predicted_ms": 9.0, "predicted_n": 4,
                                "draft_n": 5, "draft_n_accepted": 2}})
        self.server.done = True
    def log_message(self, *_): pass
server = HTTPServer(("127.0.0.1", int(argument("--port"))), Handler)
server.done = False
while not server.done: server.handle_request()
)";

TEST(LlamaPeer, IsStartedAskedAndWhenItDiesAnError) {
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / "fake_llama_server";
  std::ofstream(file) << kFakeLlama;
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  const std::string place = file.string() + "#" + file.string();  // any file passes as a head
  const auto peer = make_peer(parse_peer("peer:llama.cpp:draft-eagle3=" + place),
                              {"m.gguf", tokenizer(), 1, 512});
  EXPECT_EQ(peer->version(), "b12-abc");
  Request request = small_request();
  request.end_tokens = {2};
  const TurnAnswer answer = peer->answer(request, nullptr);
  EXPECT_EQ(answer.text, file.string());
  EXPECT_EQ(answer.tokens.size(), 4u) << "three and the end token";
  EXPECT_EQ(answer.tokens.back(), 2);
  EXPECT_EQ(answer.prefill_ms, 4);
  EXPECT_EQ(answer.decode_ms, 9);
  EXPECT_EQ(answer.rounds.rounds, 1);
  EXPECT_EQ(answer.rounds.accepted, 2);
  EXPECT_NE(message_of([&] { peer->answer(request, nullptr); }).find("peer:llama.cpp"),
            std::string::npos);
  std::filesystem::remove(file);
}

/// OpenVINO GenAI as far as bench/python_peer.py knows it: answers the prompt's tokens backwards
/// and an end token, two tokens in the second step where it drafts.
constexpr const char* kFakeOpenVino = R"(
__version__ = "2026.4"
class StreamingStatus: RUNNING = 0
class StreamerBase: pass
class GenerationConfig: stop_token_ids = set()
class Result:
    def __init__(self, tokens): self.tokens = [tokens]
class Tokenizer:
    def get_eos_token_id(self): return 2
def draft_model(model, device, **settings):
    if not model.endswith("/head"): raise SystemExit("no such head")
    return model
class LLMPipeline:
    def __init__(self, model, device, **settings):
        if not model.endswith(("m.gguf", "/target")): raise SystemExit("no such model")
        self.settings = settings
    def get_generation_config(self): return GenerationConfig()
    def get_tokenizer(self): return Tokenizer()
    def generate(self, prompt, config, streamer):
        if config.do_sample: raise RuntimeError(f"drawn at {config.temperature} with {config.rng_seed}")
        tokens = prompt[0][::-1][:config.max_new_tokens - 1] + [2]
        drafts = "prompt_lookup" in self.settings or "draft_model" in self.settings
        if drafts and config.num_assistant_tokens < 1: raise RuntimeError("no draft")
        for _ in tokens[1:] if drafts else tokens: streamer.write(0)
        return Result(tokens)
)";

class PythonPeer : public testing::Test {
 protected:
  PythonPeer() {
    std::filesystem::create_directories(folder_);
    write("openvino_genai.py", kFakeOpenVino);
    write("openvino.py", "def Tensor(rows): return rows\n");
    write("numpy.py", "int64 = None\ndef array(rows, dtype): return rows\n");
    write("start", "#!/bin/sh\nPYTHONPATH=" + folder_.string() +
                       " exec python3 " TALON_PYTHON_PEER " openvino \"$@\" --converted " +
                       folder_.string() + "\n");
    std::filesystem::permissions(start(), std::filesystem::perms::owner_all);
  }
  ~PythonPeer() override { std::filesystem::remove_all(folder_); }

  std::string start() const { return (folder_ / "start").string(); }
  std::string write(const char* name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

 private:
  const std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) / "fake_openvino";
};

TEST_F(PythonPeer, TalksAsAnEngineThatTheBenchStarts) {
  Request request = small_request();
  request.end_tokens = {2};
  std::vector<TokenId> expected(request.prompt.rbegin(), request.prompt.rend());
  expected.resize(std::min<std::size_t>(expected.size(), 7));
  expected.push_back(2);
  for (const char* name : {"peer:openvino", "peer:openvino:prompt-lookup"}) {
    SCOPED_TRACE(name);
    const auto peer =
        make_peer(parse_peer(std::string(name) + "=" + start()), {"m.gguf", tokenizer(), 1, 512});
    request.sampler.temperature = 0;
    const TurnAnswer answer = peer->answer(request, nullptr);
    EXPECT_EQ(answer.tokens, expected);
    EXPECT_EQ(peer->version(), "openvino_genai 2026.4");
    std::string text;
    for (const TokenId token : expected) {
      if (!tokenizer().is_special(token)) text += tokenizer().bytes_of(token);
    }
    EXPECT_EQ(answer.text, text) << "with which the next turn is asked";
    const int passes = static_cast<int>(expected.size()) - (name[13] == ':' ? 1 : 0);
    EXPECT_EQ(answer.rounds.rounds, passes - 1) << "the first token is the prompt's";
    EXPECT_GE(answer.prefill_ms, 0);
    EXPECT_FALSE(peer->claims_same_tokens());
    request.sampler.temperature = 0.5;
    const std::string failed = message_of([&] { peer->answer(request, nullptr); });
    EXPECT_NE(failed.find("drawn at 0.5 with 5"), std::string::npos) << failed;
    request.sampler.banned = {7};
    const std::string refused = message_of([&] { peer->answer(request, nullptr); });
    EXPECT_NE(refused.find("found --ban"), std::string::npos) << refused;
    request.sampler.banned.clear();
  }
  const PeerChoice unknown = parse_peer("peer:openvino:magic=" + start());
  EXPECT_NE(message_of([&] {
              make_peer(unknown, {"m.gguf", tokenizer(), 1, 512});
            }).find("prompt-lookup"),
            std::string::npos);
}

/// The target is read in another form, so it is made sure that it was made of this file.
TEST_F(PythonPeer, DraftsWithAHeadThatWasConvertedWithItsTarget) {
  const std::string model = write("m.gguf", "model"), head = write("h.gguf", "head");
  const auto answer_of = [&](const char* name) {
    const auto peer =
        make_peer(parse_peer(name + ("=" + start()) + "#" + head), {model, tokenizer(), 1, 512});
    return peer->answer(small_request(), nullptr);
  };
  const std::string none = message_of([&] { answer_of("peer:openvino:eagle3"); });
  EXPECT_NE(none.find("expected what scripts/python_peer.sh openvino-eagle3 makes"),
            std::string::npos)
      << none;
  write("made.json",
        Json({{"model", sha256_of_file(model)}, {"head", sha256_of_file(head)}}).dump());
  const TurnAnswer plain = answer_of("peer:openvino:none");
  const TurnAnswer drafted = answer_of("peer:openvino:eagle3");
  EXPECT_EQ(plain.tokens, drafted.tokens);
  EXPECT_EQ(drafted.rounds.rounds, plain.rounds.rounds - 1);
  write("h.gguf", "another head");
  EXPECT_NE(message_of([&] { answer_of("peer:openvino:eagle3"); }).find("found that of others"),
            std::string::npos);
}

}  // namespace
}  // namespace talon::peer_test
