#include <optional>

#include "bench/peer/event_stream.h"
#include "bench/peer/peer.h"
#include "bench/peer/peer_http.h"
#include "bench/peer/sampler_fields.h"
#include "core/error.h"
#include "core/stopwatch.h"
#include "net/http_transfer.h"

namespace talon {
namespace {

/// The text of a streamed completion and when it came.
struct TimedText {
  Stopwatch watch;
  std::string text;
  std::optional<double> first_ms;
  double last_ms = 0;

  void add(std::string_view piece) {
    text += piece;
    last_ms = watch.ms();
    if (!first_ms) first_ms = last_ms;
  }
};

/// POST URL/completions, streamed. What it says comes as text and is cut into tokens here, so that
/// all tokens are counted alike.
class OpenaiPeer : public Contestant {
 public:
  OpenaiPeer(const PeerChoice& choice, const PeerSetting& setting)
      : name_(choice.name), url_(choice.place), tokenizer_(setting.tokenizer) {
    const std::size_t hash = url_.find('#');
    if (hash != std::string::npos) {
      model_ = url_.substr(hash + 1);
      url_.resize(hash);
    }
    while (url_.ends_with('/')) url_.pop_back();
    if (model_.empty()) model_ = first_model();
  }

  const std::string& name() const override { return name_; }
  bool claims_same_tokens() const override { return false; }

  TurnAnswer answer(const Request& request, const StopFlag* stop) override {
    const std::string doing = "ask " + name_;
    TimedText timed;
    bool as_ids = takes_ids_.value_or(true);
    HttpReply reply = post(doing, request, as_ids, stop, timed);
    if (!takes_ids_ && may_refuse_ids(reply.status)) {
      as_ids = false;
      reply = post(doing, request, as_ids, stop, timed);
    }
    if (reply.status != kHttpDone) http_json(doing, reply);  // throws what it said
    takes_ids_ = as_ids;
    TurnAnswer answer;
    answer.text = timed.text;
    answer.tokens = tokenizer_.encode(answer.text);
    answer.prefill_ms = timed.first_ms.value_or(0);
    answer.decode_ms = timed.last_ms - answer.prefill_ms;
    answer.check_ms = answer.decode_ms;
    return answer;
  }

 private:
  std::string first_model() const {
    const std::string doing = "ask " + name_ + " for its models";
    const Json models = http_json(doing, http_request(doing, url_ + "/models"));
    if (!models.contains("data") || !models["data"].is_array() || models["data"].empty() ||
        !models["data"][0].is_object() || !models["data"][0].contains("id") ||
        !models["data"][0]["id"].is_string()) {
      fail("{}: expected {{\"data\":[{{\"id\":...}}]}}, got {}", doing, models.dump());
    }
    return models["data"][0]["id"].get<std::string>();
  }

  HttpReply post(const std::string& doing, const Request& request, bool as_ids,
                 const StopFlag* stop, TimedText& timed) const {
    Json body = {{"model", model_},
                 {"max_tokens", request.max_new},
                 {"seed", request.seed},
                 {"stream", true}};
    body.update(endpoint_sampler_fields(request.sampler));
    if (as_ids) {
      body["prompt"] = request.prompt;
    } else {
      body["prompt"] = tokenizer_.decode(request.prompt, /*skip_special=*/false);
    }
    timed = {};
    EventStream stream([&](std::string_view piece) { timed.add(piece); });
    HttpReply reply = http_request(doing, url_ + "/completions", &body, stop,
                                   [&](std::string_view piece) { stream.push(piece); });
    if (!stream.error().empty()) fail("{}: it said {}", doing, stream.error());
    if (reply.status == kHttpDone && !stream.is_complete())
      fail("{}: expected an answer with an end, found one that broke off", doing);
    return reply;
  }

  std::string name_;
  std::string url_;
  std::string model_;
  const Tokenizer& tokenizer_;
  std::optional<bool> takes_ids_;  // known once it has answered
};

}  // namespace

std::unique_ptr<Contestant> make_openai_peer(const PeerChoice& choice, const PeerSetting& setting) {
  return std::make_unique<OpenaiPeer>(choice, setting);
}

}  // namespace talon
