#include "serve/api/round_trace.h"

#include <cmath>

#include "text/utf8.h"

namespace talon {
namespace {

Json tree_json(const RoundTrace& round, const Tokenizer& tokenizer) {
  Json tokens = Json::array(), texts = Json::array(), parents = Json::array(), p = Json::array();
  for (const DraftTree::Node& node : round.tree) {
    tokens.push_back(node.token);
    texts.push_back(replace_ill_formed(tokenizer.bytes_of(node.token)));
    parents.push_back(node.parent);
    p.push_back(std::exp(static_cast<double>(node.log_p)));
  }
  return {{"tokens", std::move(tokens)},
          {"texts", std::move(texts)},
          {"parents", std::move(parents)},
          {"p", std::move(p)},
          {"path", round.path}};
}

}  // namespace

RoundTrace trace_of(const RoundReport& report) {
  RoundTrace round;
  round.tree = report.tree->nodes;
  round.path.assign(report.accepted.begin(), report.accepted.end());
  round.draft_ms = report.draft_ms;
  round.check_ms = report.check_ms;
  return round;
}

std::size_t bytes_of(const RoundTrace& round) {
  return sizeof(round) + round.tokens.size() * sizeof(TokenId) +
         round.tree.size() * sizeof(DraftTree::Node) + round.path.size() * sizeof(NodeId);
}

void keep_trees(std::vector<RoundTrace>& rounds, std::size_t& room) {
  for (RoundTrace& round : rounds) {
    if (round.tree.size() > room) {
      room = 0;
      round.tree.clear();
      round.path.clear();
    }
    room -= round.tree.size();
  }
}

Json trace_json(const RoundTrace& round, const Tokenizer& tokenizer) {
  Json texts = Json::array(), bytes = Json::array();
  for (const TokenId token : round.tokens) {
    const std::string of_token = tokenizer.bytes_of(token);
    bytes.push_back(of_token.size());
    texts.push_back(replace_ill_formed(of_token));
  }
  Json json = {{"tokens", round.tokens},     {"texts", std::move(texts)},
               {"bytes", std::move(bytes)},  {"accepted", round.accepted},
               {"draft_ms", round.draft_ms}, {"check_ms", round.check_ms}};
  if (round.tree.size() > 1) json["tree"] = tree_json(round, tokenizer);
  return json;
}

}  // namespace talon
