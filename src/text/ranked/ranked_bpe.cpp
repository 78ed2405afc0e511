#include "text/ranked/ranked_bpe.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "io/codec/base64.h"
#include "io/quote.h"
#include "text/hugging_face/folder_settings.h"
#include "text/ranked/byte_level.h"

namespace talon {
namespace {

constexpr std::size_t kLongestRankedToken = 1024;
constexpr TokenId kNoRank = std::numeric_limits<TokenId>::max();

using RankOf = std::unordered_map<std::string_view, TokenId>;

RankOf ranks_by_bytes(const std::vector<std::string>& tokens, std::string_view doing) {
  RankOf ranks;
  ranks.reserve(tokens.size());
  for (std::size_t rank = 0; rank < tokens.size(); ++rank) {
    const std::string& token = tokens[rank];
    if (token.empty() || token.size() > kLongestRankedToken) {
      fail("{}: rank {}: expected a token of 1 to {} bytes, found {}", doing, rank,
           kLongestRankedToken, token.size());
    }
    const auto [known, is_new] = ranks.emplace(token, static_cast<TokenId>(rank));
    if (!is_new) {
      fail("{}: rank {}: expected a new token, found {} as of rank {}", doing, rank, quote(token),
           known->second);
    }
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (ranks.contains(std::string(1, static_cast<char>(byte)))) continue;
    fail("{}: expected a token for each byte, found none for 0x{:02X}", doing, byte);
  }
  return ranks;
}

/// The parts of a token while they are joined.
class TokenParts {
 public:
  TokenParts(std::string_view token, const RankOf& ranks) : token_(token), ranks_(ranks) {
    for (std::size_t i = 0; i <= token.size(); ++i) parts_.push_back({i, kNoRank});
    for (std::size_t i = 0; i < token.size(); ++i) rank(i);
  }

  std::size_t count() const { return parts_.size() - 1; }
  std::size_t begin_of(std::size_t part) const { return parts_[part].begin; }

  /// False where no two can be joined.
  bool join_best() {
    const auto best = std::ranges::min_element(parts_, {}, &Part::joined);  // the first of several
    if (best->joined == kNoRank) return false;
    const auto at = static_cast<std::size_t>(best - parts_.begin());
    parts_.erase(best + 1);
    rank(at);
    if (at > 0) rank(at - 1);
    return true;
  }

 private:
  struct Part {
    std::size_t begin;
    TokenId joined;  // the rank of it and the next one together
  };

  void rank(std::size_t part) {
    parts_[part].joined = kNoRank;
    if (part + 2 >= parts_.size()) return;
    const std::size_t begin = parts_[part].begin;
    const auto found = ranks_.find(token_.substr(begin, parts_[part + 2].begin - begin));
    if (found != ranks_.end()) parts_[part].joined = found->second;
  }

  std::string_view token_;
  const RankOf& ranks_;
  std::vector<Part> parts_;  // and one of no bytes at the end
};

/// Where the second of a token's last two parts begins.
std::optional<std::size_t> last_cut(std::string_view token, const RankOf& ranks) {
  TokenParts parts(token, ranks);
  while (parts.count() > 2) {
    if (!parts.join_best()) return std::nullopt;
  }
  return parts.count() == 2 ? std::optional(parts.begin_of(1)) : std::nullopt;
}

Json ranked_model(const RankedBpe& bpe, std::string_view doing) {
  const RankOf ranks = ranks_by_bytes(bpe.tokens, doing);
  Json vocabulary = Json::object();
  Json merges = Json::array();
  TokenId id = bpe.first;
  for (const std::string_view token : bpe.tokens) {
    vocabulary[spell_bytes(token)] = id++;
    const auto cut = last_cut(token, ranks);
    if (!cut) continue;
    // As a pair: the library passes over a merge in one text that begins with "#version".
    merges.push_back(
        Json::array({spell_bytes(token.substr(0, *cut)), spell_bytes(token.substr(*cut))}));
  }
  Json model = {{"type", "BPE"}, {"ignore_merges", true}};
  model["vocab"] = std::move(vocabulary);
  model["merges"] = std::move(merges);
  return model;
}

/// In the vocabulary, too, from which the library takes their ids.
Json put_added_tokens(const RankedBpe& bpe, std::string_view doing, Json& vocabulary) {
  const TokenId end = bpe.first + static_cast<TokenId>(bpe.tokens.size());
  std::set<TokenId> ids;
  Json added = Json::array();
  for (const AddedPiece& piece : bpe.added) {
    const bool has_rank = piece.id >= bpe.first && piece.id < end;
    if (piece.id < 0 || has_rank || !ids.insert(piece.id).second) {
      fail("{}: added token {}: expected an id of its own, found {}", doing, quote(piece.text),
           piece.id);
    }
    if (piece.text.empty() || vocabulary.contains(piece.text)) {
      fail("{}: added token {}: expected a text that no other token has, found {}", doing, piece.id,
           quote(piece.text));
    }
    vocabulary[piece.text] = piece.id;
    added.push_back(added_token_json(piece));
  }
  return added;
}

Json byte_level_step() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", false}};
}

}  // namespace

Json tokenizer_json_of(const RankedBpe& bpe, std::string_view doing) {
  Json model = ranked_model(bpe, doing);
  Json json = bpe.pipeline;
  json["version"] = "1.0";
  json["added_tokens"] = put_added_tokens(bpe, doing, model["vocab"]);
  json["decoder"] = byte_level_step();
  json["model"] = std::move(model);
  return json;
}

std::optional<std::string> token_of_base64(std::string_view text) {
  const auto bytes = from_base64(text);
  if (!bytes) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

Json cutting_pipeline(std::string_view pattern) {
  const Json split = {{"type", "Split"},
                      {"behavior", "Isolated"},
                      {"invert", false},
                      {"pattern", {{"Regex", pattern}}}};
  Json pipeline = Json::object();
  pipeline["pre_tokenizer"] = {{"type", "Sequence"},
                               {"pretokenizers", Json::array({split, byte_level_step()})}};
  return pipeline;
}

}  // namespace talon
