#include "bench/load/load_server.h"

#include <algorithm>

#include "bench/peer/peer_http.h"
#include "bench/peer/sampler_fields.h"
#include "core/error.h"
#include "net/http_transfer.h"
#include "runtime/method.h"

namespace talon {
namespace {

std::vector<std::string> talon_command(const LoadSetting& setting, const std::string& method,
                                       int port) {
  const MethodText parts = parse_method(method);
  std::vector<std::string> command = setting.talon;
  command.insert(command.end(), {"--port", std::to_string(port), "-d", parts.drafter});
  if (!parts.policy.empty()) command.insert(command.end(), {"--policy", parts.policy});
  if (!parts.verify.empty()) command.insert(command.end(), {"--verify", parts.verify});
  return command;
}

}  // namespace

LoadServerChoice parse_load_method(std::string_view method) {
  if (!is_peer(method)) {
    return {LoadServerChoice::Kind::talon, fmt::format("talon {}", method), std::string(method)};
  }
  PeerChoice peer = parse_peer(method);
  if (peer.kind != PeerChoice::Kind::llama_cpp) {
    throw UsageError(fmt::format("--methods: expected --url NAME=URL for {}", method));
  }
  const std::string name = peer.name.substr(peer.name.find(':') + 1);
  return {LoadServerChoice::Kind::llama_cpp, name, peer.place, std::move(peer)};
}

LoadServerChoice parse_load_url(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string_view url = equals == text.npos ? "" : text.substr(equals + 1);
  if (equals == 0 || !url.starts_with("http")) {
    throw UsageError(fmt::format(
        "--url: expected NAME=URL, such as mine=http://127.0.0.1:8000/v1, got {}", text));
  }
  return {LoadServerChoice::Kind::endpoint, std::string(text.substr(0, equals)), std::string(url)};
}

int slot_positions(int asked, int most) {
  constexpr int kUsual = 4096, kMargin = 64;
  return std::min(std::max(kUsual, asked + kMargin), most);
}

LoadServer::LoadServer(const LoadServerChoice& choice, const LoadSetting& setting)
    : choice_(choice) {
  using Kind = LoadServerChoice::Kind;
  const std::string doing = "start " + choice_.name;
  if (choice_.kind == Kind::endpoint) {
    base_ = choice_.place;
    if (const std::size_t hash = base_.find('#'); hash != base_.npos) {
      model_ = base_.substr(hash + 1);
      base_.resize(hash);
    }
    while (base_.ends_with('/')) base_.pop_back();
  } else {
    const bool is_talon = choice_.kind == Kind::talon;
    process_ = std::make_unique<ServerProcess>(
        is_talon ? [&](int port) { return talon_command(setting, choice_.place, port); }
                 : llama_server_command(choice_.peer, setting.peer, setting.slots, "0"));
    process_->await_ready(doing);
    base_ = process_->url() + "/v1";
  }
  learn_model();
}

/// Its first model, whether it takes token ids, and whether it is Talon.
void LoadServer::learn_model() {
  const std::string doing = "ask " + choice_.name;
  const Json models = http_json(doing, http_request(doing, base_ + "/models"));
  try {
    const Json& first = models.at("data").at(0);
    if (model_.empty()) model_ = first.at("id").get<std::string>();
    claims_ = first.value("owned_by", "") == "talon";
  } catch (const Json::exception&) {
    fail("{}: expected {{\"data\":[{{\"id\":...}}]}}, got {}", doing, models.dump());
  }
  LoadPrompt probe;
  probe.text = "a";
  probe.tokens = {1, 1};
  probe.max_new = 1;
  for (takes_ids_ = true;; takes_ids_ = false) {
    Json body = body_of(probe, {});
    body["stream"] = false;
    const HttpReply reply = http_request(doing, completions_url(), &body);
    if (reply.status == kHttpDone) return;
    if (!takes_ids_ || !may_refuse_ids(reply.status))
      http_json(doing, reply);  // throws what it said
  }
}

Json LoadServer::body_of(const LoadPrompt& prompt, const SamplerOptions& sampler) const {
  Json body = {
      {"model", model_}, {"max_tokens", prompt.max_new}, {"seed", prompt.seed}, {"stream", true}};
  body["prompt"] = takes_ids_ ? Json(prompt.tokens) : Json(prompt.text);
  const bool is_llama = choice_.kind == LoadServerChoice::Kind::llama_cpp;
  const int tokens = static_cast<int>(prompt.tokens.size()) + prompt.max_new;
  body.update(is_llama ? llama_sampler_fields(sampler, tokens) : endpoint_sampler_fields(sampler));
  return body;
}

std::optional<std::string> LoadServer::problem() {
  if (!process_ || process_->running()) return std::nullopt;
  return fmt::format("{} has ended: {}", choice_.name, process_->last_output());
}

}  // namespace talon
