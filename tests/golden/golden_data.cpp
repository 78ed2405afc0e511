#include "golden_data.h"

#include <fstream>

#include "core/error.h"
#include "io/codec/zstd.h"

namespace talon {
namespace {

GoldenCase read_case(const Json& json, const std::vector<TokenId>& fixed_ids) {
  GoldenCase c;
  c.prompt = json.at("prompt_ids").get<std::vector<TokenId>>();
  const Json& last = json.at("last_logits");
  for (const Json& pair : last.at("top20")) {
    c.last_logits.emplace_back(pair.at(0).get<TokenId>(), pair.at(1).get<double>());
  }
  for (std::size_t i = 0; i < fixed_ids.size(); ++i) {
    c.last_logits.emplace_back(fixed_ids[i], last.at("fixed").at(i).get<double>());
  }
  c.log_sum_exp = last.at("logsumexp");
  c.mean = last.at("mean");
  c.deviation = last.at("std");
  c.smallest = last.at("min");
  const Json& greedy = json.at("greedy");
  c.greedy = greedy.at("ids").get<std::vector<TokenId>>();
  c.margin = greedy.at("margin").get<std::vector<double>>();
  c.log_p = greedy.at("logprob").get<std::vector<double>>();
  return c;
}

GoldenPeer read_peer(const std::string& configuration, const Json& json) {
  GoldenPeer peer;
  peer.configuration = configuration;
  peer.text_nll = json.at("text_nll").get<std::vector<double>>();
  peer.argmax_agreement = json.at("text_argmax_agree");
  peer.mean_kl = json.at("text_mean_kl");
  for (const Json& prompt : json.at("per_prompt")) {
    peer.last_logits_max_abs.push_back(prompt.at("last_logits_max_abs"));
    peer.last_kl.push_back(prompt.at("last_kl"));
  }
  return peer;
}

}  // namespace

Json read_golden_json(const std::string& file) {
  const std::string path = std::string(TALON_TEST_DATA) + "/golden/" + file;
  if (path.ends_with(".zst")) return Json::parse(read_zstd(path));
  std::ifstream stream(path);
  if (!stream) fail("read {}: cannot be opened", path);
  return Json::parse(stream);
}

Golden read_golden(const std::string& name) {
  Golden golden;
  const Json greedy = read_golden_json(name + "/greedy.json");
  const auto fixed_ids = greedy.at("fixed_ids").get<std::vector<TokenId>>();
  for (const Json& c : greedy.at("cases")) golden.cases.push_back(read_case(c, fixed_ids));
  const Json text = read_golden_json(name + "/text_nll.json");
  golden.text = {text.at("ids"), text.at("nll"), text.at("argmax"), text.at("margin")};
  const Json peers = read_golden_json(name + "/peer_llama_cpp.json");
  for (const auto& [configuration, json] : peers.at("configurations").items()) {
    golden.peers.push_back(read_peer(configuration, json));
  }
  return golden;
}

}  // namespace talon
