#include "text/gguf/cutting.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "text/gguf/pre_tokenizer.h"
#include "text/hugging_face/bridge_encoder.h"
#include "text/ranked/byte_level.h"

namespace talon {
namespace {

/// A vocabulary of all bytes and of all parts of a text that are no longer than pieces are. Where
/// a piece that is a token is taken whole, the ids of the text tell where it was cut.
std::vector<std::string> parts_of(std::string_view text) {
  constexpr std::size_t kLongest = 32;
  std::set<std::string> parts;
  for (int byte = 0; byte < 256; ++byte) {
    parts.insert(spell_bytes(std::string(1, static_cast<char>(byte))));
  }
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    std::string part;
    for (std::size_t i = begin; i < std::min(text.size(), begin + kLongest); ++i) {
      part += spell_bytes(text.substr(i, 1));
      parts.insert(part);
    }
  }
  return {parts.begin(), parts.end()};
}

std::vector<TokenId> cut(const Json& tokenizer_json, const std::vector<std::string>& parts,
                         std::string_view probe, std::string_view doing) {
  Json vocabulary = Json::object();
  for (std::size_t id = 0; id < parts.size(); ++id) vocabulary[parts[id]] = id;
  Json json = {{"version", "1.0"}, {"added_tokens", Json::array()}};
  json["model"] = {{"type", "BPE"},
                   {"vocab", std::move(vocabulary)},
                   {"merges", Json::array()},
                   {"ignore_merges", true}};
  for (const char* step : {"normalizer", "pre_tokenizer", "decoder"}) {
    if (tokenizer_json.contains(step)) json[step] = tokenizer_json[step];
  }
  return load_tokenizer_json(json.dump(), doing).encoder->encode(probe, {});
}

std::vector<TokenId> cut(const Json& pipeline, const std::vector<std::string>& parts,
                         std::string_view probe) {
  Json whole = pipeline;
  whole["ignore_merges"] = true;
  const std::string text = whole.dump();
  TokenLists bpe;
  bpe.tokens.assign(parts.begin(), parts.end());
  bpe.kinds.assign(parts.size(), TokenLists::Kind::ordinary);
  bpe.pipeline = text;
  return load_bpe(bpe, "cut text").encoder->encode(probe, {});
}

/// The expressions by which a pipeline cuts text.
void collect_patterns(const Json& json, std::vector<std::string>& patterns) {
  if (json.is_object() && json.contains("Regex") && json["Regex"].is_string()) {
    patterns.push_back(json["Regex"]);
  }
  if (!json.is_structured()) return;
  for (const Json& inner : json) collect_patterns(inner, patterns);
}

std::vector<std::string> patterns_of(const Json& pipeline) {
  std::vector<std::string> patterns;
  if (pipeline.contains("pre_tokenizer")) collect_patterns(pipeline["pre_tokenizer"], patterns);
  return patterns;
}

struct Candidate {
  std::string_view name;
  Json pipeline;
};

/// "default" cuts otherwise in llama.cpp than here.
std::vector<Candidate> candidates() {
  std::vector<Candidate> all;
  std::set<std::string> seen;
  for (const std::string_view name : pre_tokenizer_names()) {
    const std::string pipeline = find_pre_tokenizer(name)->pipeline;
    if (name != "default" && seen.insert(pipeline).second) {
      all.push_back({name, Json::parse(pipeline)});
    }
  }
  return all;
}

}  // namespace

std::optional<std::string_view> find_cutting(const Json& tokenizer_json, std::string_view probe,
                                             std::string_view doing,
                                             const std::function<bool(std::string_view)>& fits) {
  const std::vector<std::string> parts = parts_of(probe);
  const std::vector<TokenId> expected = cut(tokenizer_json, parts, probe, doing);
  const Json& model = tokenizer_json.at("model");
  const Json whole = model.is_object() ? model.value("ignore_merges", Json(false)) : Json(false);
  const std::vector<std::string> patterns = patterns_of(tokenizer_json);
  const auto unlikeness = [&](const Candidate& one) {
    return (patterns_of(one.pipeline) == patterns ? 0 : 2) +
           (one.pipeline.at("ignore_merges") == whole ? 0 : 1);
  };
  std::vector<Candidate> all = candidates();
  std::ranges::stable_sort(all, {}, unlikeness);
  for (const Candidate& one : all) {
    if (cut(one.pipeline, parts, probe) == expected && fits(one.name)) return one.name;
  }
  return std::nullopt;
}

}  // namespace talon
