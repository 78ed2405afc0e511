#include "text/ranked/tekken.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "core/error.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "io/quote.h"
#include "text/hugging_face/bridge_encoder.h"
#include "text/hugging_face/folder_settings.h"
#include "text/loaders.h"
#include "text/ranked/tekken_template.h"

namespace talon {
namespace {

/// Of files up to version 7 that list none.
constexpr std::string_view kUsualSpecial[] = {
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
};
constexpr std::string_view kVersionsWithUsualSpecial[] = {"v1", "v2", "v3", "v7"};
constexpr std::string_view kTekkenStart = "<s>", kTekkenEnd = "</s>";

/// Reads the parts of a tekken.json. Borrows both.
class TekkenReader {
 public:
  TekkenReader(const Json& json, std::string_view doing) : json_(json), doing_(doing) {}

  Tekken read() const {
    const Json& config = object_at(json_, "config");
    const std::size_t all = count_at(config, "default_vocab_size");
    const std::size_t special = count_at(config, "default_num_special_tokens");
    if (special > all) {
      fail(
          "{}: config.default_num_special_tokens: expected at most {}, the default_vocab_size, "
          "found {}",
          doing_, all, special);
    }
    Tekken tekken;
    tekken.version = text_at(config, "version", "config.version");
    tekken.bpe.pipeline = cutting_pipeline(text_at(config, "pattern", "config.pattern"));
    tekken.bpe.first = static_cast<TokenId>(special);
    tekken.bpe.tokens = tokens(all - special);
    TokenId id = 0;
    for (std::string& text : special_texts(special, tekken.version)) {
      tekken.bpe.added.push_back({id++, std::move(text)});
    }
    return tekken;
  }

 private:
  static const Json& member_of(const Json& object, const char* name) {
    static const Json kNone;
    const auto found = object.is_object() ? object.find(name) : object.end();
    return object.is_object() && found != object.end() ? *found : kNone;
  }

  [[noreturn]] void refuse(std::string_view field, std::string_view expected,
                           const Json& found) const {
    fail("{}: {}: expected {}, found {}", doing_, field, expected,
         found.is_structured() ? std::string(found.type_name()) : quote(found.dump()));
  }

  const Json& object_at(const Json& object, const char* name) const {
    const Json& value = member_of(object, name);
    if (!value.is_object()) refuse(name, "an object", value);
    return value;
  }

  std::size_t count_at(const Json& config, const char* name) const {
    constexpr std::uint64_t kMost = 1 << 24;
    const Json& value = member_of(config, name);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMost) {
      refuse(fmt::format("config.{}", name), fmt::format("a number up to {}", kMost), value);
    }
    return value.get<std::size_t>();
  }

  std::string text_at(const Json& object, const char* name, std::string_view field) const {
    const Json& value = member_of(object, name);
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
      refuse(field, "a text", value);
    }
    return value.get<std::string>();
  }

  void check_rank(const Json& entry, const char* list, std::size_t rank) const {
    const Json& found = member_of(entry, "rank");
    if (found != Json(rank)) {
      refuse(fmt::format("{}[{}].rank", list, rank), fmt::format("{}", rank), found);
    }
  }

  std::vector<std::string> tokens(std::size_t count) const {
    const Json& list = member_of(json_, "vocab");
    if (!list.is_array()) refuse("vocab", "a list", list);
    if (list.size() < count) {
      fail(
          "{}: vocab: expected at least {} tokens, default_vocab_size less "
          "default_num_special_tokens, found {}",
          doing_, count, list.size());
    }
    std::vector<std::string> by_rank;
    by_rank.reserve(count);
    for (std::size_t rank = 0; rank < count; ++rank) {
      check_rank(list[rank], "vocab", rank);
      const Json& text = member_of(list[rank], "token_bytes");
      auto bytes =
          text.is_string() ? token_of_base64(text.get_ref<const std::string&>()) : std::nullopt;
      if (!bytes) refuse(fmt::format("vocab[{}].token_bytes", rank), "a token in base64", text);
      by_rank.push_back(std::move(*bytes));
    }
    return by_rank;
  }

  std::vector<std::string> special_texts(std::size_t count, std::string_view version) const {
    std::vector<std::string> texts = listed_special_texts(version);
    if (texts.size() > count) {
      fail("{}: special_tokens: expected at most {}, the default_num_special_tokens, found {}",
           doing_, count, texts.size());
    }
    while (texts.size() < count) texts.push_back(fmt::format("<SPECIAL_{}>", texts.size()));
    return texts;
  }

  std::vector<std::string> listed_special_texts(std::string_view version) const {
    const Json& list = member_of(json_, "special_tokens");
    const bool may_miss = std::ranges::find(kVersionsWithUsualSpecial, version) !=
                          std::end(kVersionsWithUsualSpecial);
    if (list.is_null() && may_miss) return {std::begin(kUsualSpecial), std::end(kUsualSpecial)};
    if (!list.is_array()) refuse("special_tokens", "a list", list);
    std::vector<std::string> texts;
    for (std::size_t rank = 0; rank < list.size(); ++rank) {
      check_rank(list[rank], "special_tokens", rank);
      const std::string field = fmt::format("special_tokens[{}].token_str", rank);
      texts.push_back(text_at(list[rank], "token_str", field));
    }
    return texts;
  }

  const Json& json_;
  std::string_view doing_;
};

std::string loading_tekken(const std::filesystem::path& path) {
  return fmt::format("load tokenizer {}", quote(path.string()));
}

Tekken read_tekken(const std::filesystem::path& path) {
  const MappedFile file(path);
  Tekken tekken = parse_tekken(file.text(), loading_tekken(path));
  file.check_whole();
  return tekken;
}

}  // namespace

Tekken parse_tekken(std::string_view json, std::string_view doing) {
  const Json parsed = parse_json(json, doing);
  return TekkenReader(parsed, doing).read();
}

Json tekken_as_tokenizer_json(const std::filesystem::path& tekken_json) {
  return tokenizer_json_of(read_tekken(tekken_json).bpe, loading_tekken(tekken_json));
}

TokenizerParts load_tekken_tokenizer(const std::filesystem::path& tekken_json) {
  const std::string doing = loading_tekken(tekken_json);
  const Tekken tekken = read_tekken(tekken_json);
  TokenizerParts parts = load_tokenizer_json(tokenizer_json_of(tekken.bpe, doing).dump(), doing);
  parts.start_token = parts.vocabulary.find_special(kTekkenStart);
  parts.wants_start_token = parts.start_token.has_value();
  if (const auto end = parts.vocabulary.find_special(kTekkenEnd)) parts.end_tokens = {*end};
  FolderSettings(tekken_json.parent_path()).apply(parts);
  if (!parts.chat_template) {
    parts.chat_template = tekken_chat_template(tekken.version, parts.vocabulary);
  }
  return parts;
}

}  // namespace talon
