#include <algorithm>

#include "bench/peer/peer.h"
#include "bench/peer/peer_http.h"
#include "bench/peer/sampler_fields.h"
#include "bench/peer/server_process.h"
#include "core/error.h"
#include "text/detokenizer.h"

namespace talon {
namespace {

/// Throws UsageError for what adapters (bench/python_peer.py) do not know of the sampler.
void expect_adapter_knows(const std::string& name, const SamplerOptions& sampler) {
  const SamplerOptions usual;
  const std::pair<const char*, bool> asked[] = {
      {"--min-p", sampler.min_p != usual.min_p},
      {"--typical-p", sampler.typical_p != usual.typical_p},
      {"--repeat-window", sampler.penalty_window != usual.penalty_window},
      {"--presence-penalty", sampler.presence_penalty != usual.presence_penalty},
      {"--frequency-penalty", sampler.frequency_penalty != usual.frequency_penalty},
      {"--logit-bias", !sampler.logit_bias.empty()},
      {"--ban", !sampler.banned.empty()}};
  for (const auto& [flag, is_asked] : asked) {
    if (!is_asked) continue;
    throw UsageError(
        fmt::format("{}: expected --temperature, --top-k, --top-p, --repeat-penalty and --seed "
                    "alone, which are all that it can be told, found {}",
                    name, flag));
  }
}

/// What the server at `url` says that it is; empty if it does not.
std::string build_info_of(const std::string& doing, const std::string& url) {
  const HttpReply reply = http_request(doing, url + "/props");
  const Json props = Json::parse(reply.body, nullptr, false);
  if (!props.is_object() || !props.contains("build_info")) return "";
  const Json& build = props["build_info"];
  return build.is_string() ? build.get<std::string>() : "";
}

/// llama.cpp's server, one slot, nothing remembered between prompts; or a program that talks like
/// it for another engine.
class LlamaPeer : public Contestant {
 public:
  LlamaPeer(const PeerChoice& choice, const PeerSetting& setting)
      : name_(choice.name),
        is_adapter_(choice.kind == PeerChoice::Kind::adapter),
        tokenizer_(setting.tokenizer),
        server_(is_adapter_ ? adapter_command(choice, setting)
                            : llama_server_command(choice, setting, /*slots=*/1, "0")) {
    const std::string doing = "start " + name_;
    server_.await_ready(doing);
    version_ = build_info_of(doing, server_.url());
  }

  const std::string& name() const override { return name_; }
  std::string version() const override { return version_; }
  bool claims_same_tokens() const override { return false; }

  TurnAnswer answer(const Request& request, const StopFlag* stop) override {
    const std::string doing = "ask " + name_;
    if (is_adapter_) expect_adapter_knows(name_, request.sampler);
    if (!server_.running()) fail("{}: it has ended: {}", doing, server_.last_output());
    const Json body = body_of(request);
    const Json reply =
        http_json(doing, http_request(doing, server_.url() + "/completion", &body, stop));
    try {
      return read_answer(reply, request);
    } catch (const Json::exception& error) {
      fail("{}: expected tokens and timings, got {}: {}", doing, error.what(),
           reply.dump().substr(0, 300));
    }
  }

 private:
  static Json body_of(const Request& request) {
    Json body = {{"prompt", request.prompt},
                 {"n_predict", request.max_new},
                 {"seed", request.seed},
                 {"cache_prompt", false},
                 {"return_tokens", true}};
    const int tokens = static_cast<int>(request.prompt.size()) + request.max_new;
    body.update(llama_sampler_fields(request.sampler, tokens));
    return body;
  }

  /// Its times count as Talon's: decoding is all after the first token.
  TurnAnswer read_answer(const Json& reply, const Request& request) const {
    const Json& timings = reply.at("timings");
    TurnAnswer answer;
    answer.tokens = reply.at("tokens").get<std::vector<TokenId>>();
    answer.text = reply.at("content").get<std::string>();
    if (answer.text.empty()) answer.text = text_of(answer.tokens);
    answer.prefill_ms = timings.at("prompt_ms").get<double>();
    answer.decode_ms = timings.at("predicted_ms").get<double>();
    answer.check_ms = answer.decode_ms;
    const auto predicted = timings.at("predicted_n").get<std::size_t>();
    if (answer.tokens.size() < predicted && !request.end_tokens.empty())
      answer.tokens.push_back(request.end_tokens.back());  // it keeps the end token to itself
    answer.rounds.drafted = timings.value("draft_n", 0);
    answer.rounds.accepted = timings.value("draft_n_accepted", 0);
    answer.rounds.rounds =
        std::max(0, static_cast<int>(answer.tokens.size()) - 1 - answer.rounds.accepted);
    return answer;
  }

  /// Adapters answer in tokens alone; the next turn is asked with the text.
  std::string text_of(const std::vector<TokenId>& tokens) const {
    Detokenizer detokenizer(tokenizer_);
    std::string text;
    for (const TokenId token : tokens) text += detokenizer.push(token);
    return text + detokenizer.finish();
  }

  std::string name_;
  std::string version_;
  bool is_adapter_;
  const Tokenizer& tokenizer_;
  ServerProcess server_;
};

}  // namespace

std::unique_ptr<Contestant> make_llama_peer(const PeerChoice& choice, const PeerSetting& setting) {
  return std::make_unique<LlamaPeer>(choice, setting);
}

}  // namespace talon
