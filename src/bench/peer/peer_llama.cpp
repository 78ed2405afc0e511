#include <algorithm>

#include "bench/peer/peer.h"
#include "bench/peer/peer_http.h"
#include "bench/peer/server_process.h"
#include "core/error.h"

namespace talon {
namespace {

/// llama.cpp's server, one slot, nothing remembered between prompts; or a program that talks like
/// it for another engine.
class LlamaPeer : public Contestant {
 public:
  LlamaPeer(const PeerChoice& choice, const PeerSetting& setting)
      : name_(choice.name),
        server_(choice.kind == PeerChoice::Kind::adapter
                    ? adapter_command(choice, setting)
                    : llama_server_command(choice, setting, /*slots=*/1, "0")) {
    server_.await_ready("start " + name_);
  }

  const std::string& name() const override { return name_; }
  bool claims_same_tokens() const override { return false; }

  TurnAnswer answer(const Request& request, const StopFlag* stop) override {
    const std::string doing = "ask " + name_;
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
    const SamplerOptions& sampler = request.sampler;
    // The most probable token is the same with 1, which spares it a softmax over the vocabulary.
    const int top_k = sampler.temperature == 0 ? 1 : sampler.top_k;
    return {{"prompt", request.prompt},
            {"n_predict", request.max_new},
            {"temperature", sampler.temperature},
            {"top_k", top_k},
            {"top_p", sampler.top_p},
            {"min_p", sampler.min_p},
            {"typical_p", sampler.typical_p},
            {"repeat_penalty", sampler.repetition_penalty},
            {"repeat_last_n", sampler.penalty_window > 0 ? sampler.penalty_window : -1},
            {"presence_penalty", sampler.presence_penalty},
            {"frequency_penalty", sampler.frequency_penalty},
            {"seed", request.seed},
            {"cache_prompt", false},
            {"return_tokens", true}};
  }

  /// Its times count as Talon's: decoding is all after the first token.
  static TurnAnswer read_answer(const Json& reply, const Request& request) {
    const Json& timings = reply.at("timings");
    TurnAnswer answer;
    answer.tokens = reply.at("tokens").get<std::vector<TokenId>>();
    answer.text = reply.at("content").get<std::string>();
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

  std::string name_;
  ServerProcess server_;
};

}  // namespace

std::unique_ptr<Contestant> make_llama_peer(const PeerChoice& choice, const PeerSetting& setting) {
  return std::make_unique<LlamaPeer>(choice, setting);
}

}  // namespace talon
