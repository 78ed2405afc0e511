#include "text/hugging_face/bridge_encoder.h"

#include <cstring>
#include <memory>
#include <utility>

#include "core/error.h"
#include "io/json.h"
#include "text/bridge/bridge.h"
#include "text/bridge_buffer.h"

namespace talon {
namespace {

using Handle = std::unique_ptr<talon_tokenizer, decltype(&talon_tokenizer_free)>;

class BridgeEncoder : public Encoder {
 public:
  explicit BridgeEncoder(Handle handle) : handle_(std::move(handle)) {}

  std::vector<TokenId> encode(std::string_view text,
                              std::span<const TextRange> own) const override {
    talon_ids raw{};
    BridgeBuffer error;
    std::vector<talon_range> ranges;
    for (const TextRange& range : own) ranges.push_back({range.begin, range.end});
    if (!talon_tokenizer_encode(handle_.get(), text.data(), text.size(), ranges.data(),
                                ranges.size(), &raw, error.out())) {
      fail_bridge(fmt::format("encode text of {} bytes", text.size()), error.text());
    }
    const auto release = [](talon_ids* ids) { talon_ids_free(*ids); };
    const std::unique_ptr<talon_ids, decltype(release)> owner(&raw, release);
    return {raw.data, raw.data + raw.size};
  }

 private:
  Handle handle_;
};

std::uint32_t take_number(std::string_view& table) {
  std::uint32_t number = 0;
  std::memcpy(&number, table.data(), sizeof number);
  table.remove_prefix(sizeof number);
  return number;
}

std::string_view take_text(std::string_view& table, std::size_t size) {
  const std::string_view text = table.substr(0, size);
  table.remove_prefix(size);
  return text;
}

/// The table that bridge.h describes.
Vocabulary read_pieces(const talon_tokenizer* tokenizer, std::string_view doing) {
  BridgeBuffer buffer;
  BridgeBuffer error;
  if (!talon_tokenizer_pieces(tokenizer, buffer.out(), error.out())) {
    fail_bridge(doing, error.text());
  }
  Vocabulary vocabulary;
  for (std::string_view table = buffer.text(); !table.empty();) {
    const std::uint32_t piece_size = take_number(table);
    const std::uint32_t bytes_size = take_number(table);
    const char flags = take_text(table, 1)[0];
    const std::string_view piece = take_text(table, piece_size);
    const std::string_view bytes = take_text(table, bytes_size);
    using Kind = Vocabulary::Kind;
    const Kind present = (flags & 2) != 0 ? Kind::special : Kind::ordinary;
    vocabulary.add(piece, bytes, (flags & 1) != 0 ? present : Kind::absent);
  }
  return vocabulary;
}

TokenizerParts parts_of(talon_tokenizer* raw, const BridgeBuffer& error, std::string_view doing) {
  if (raw == nullptr) fail_bridge(doing, error.text());
  Handle handle(raw, &talon_tokenizer_free);
  BridgeBuffer description;
  BridgeBuffer failure;
  if (!talon_tokenizer_describe(raw, description.out(), failure.out())) {
    fail_bridge(doing, failure.text());
  }
  const Json facts = Json::parse(description.text());
  TokenizerParts parts;
  parts.vocabulary = read_pieces(raw, doing);
  parts.kind = facts.at("kind").get<std::string>();
  parts.drops_first_space = facts.at("drops_first_space").get<bool>();
  const auto starts = facts.at("start_tokens").get<std::vector<TokenId>>();
  if (!starts.empty()) {
    parts.start_token = starts.front();
    parts.behind_start.assign(starts.begin() + 1, starts.end());
    parts.wants_start_token = true;
  }
  parts.encoder = std::make_unique<BridgeEncoder>(std::move(handle));
  return parts;
}

/// Strings end to end, with their sizes.
struct Joined {
  explicit Joined(std::span<const std::string_view> strings) {
    for (const std::string_view string : strings) {
      text.append(string);
      sizes.push_back(static_cast<std::uint32_t>(string.size()));
    }
  }
  std::string text;
  std::vector<std::uint32_t> sizes;
};

}  // namespace

TokenizerParts load_bpe(const TokenLists& bpe, std::string_view doing) {
  expects(bpe.kinds.size() == bpe.tokens.size(), "every token has a kind");
  const Joined tokens(bpe.tokens);
  const Joined merges(bpe.merges);
  const talon_bpe lists = {tokens.text.data(),
                           tokens.sizes.data(),
                           reinterpret_cast<const std::uint8_t*>(bpe.kinds.data()),
                           bpe.tokens.size(),
                           merges.text.data(),
                           merges.sizes.data(),
                           bpe.merges.size(),
                           bpe.pipeline.data(),
                           bpe.pipeline.size()};
  BridgeBuffer error;
  talon_tokenizer* raw = talon_tokenizer_from_bpe(&lists, error.out());
  return parts_of(raw, error, doing);
}

TokenizerParts load_tokenizer_json(std::string_view json, std::string_view doing) {
  BridgeBuffer error;
  talon_tokenizer* raw = talon_tokenizer_from_json(json.data(), json.size(), error.out());
  return parts_of(raw, error, doing);
}

}  // namespace talon
