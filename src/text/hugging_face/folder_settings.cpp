#include "text/hugging_face/folder_settings.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "io/quote.h"
#include "text/utf8.h"

namespace talon {
namespace {

Json read_object(const std::filesystem::path& path) {
  const auto text = read_text_file(path);
  if (!text) return Json::object();
  const std::string doing = fmt::format("load {}", quote(path.string()));
  Json json = parse_json(*text, doing);
  if (!json.is_object()) fail("{}: expected an object, found {}", doing, json.type_name());
  return json;
}

/// A token is given by its text or as an object with its `content`.
std::optional<std::string> text_of(const Json& token) {
  if (token.is_string()) return token.get<std::string>();
  if (!token.is_object()) return std::nullopt;
  const auto content = token.find("content");
  if (content == token.end() || !content->is_string()) return std::nullopt;
  return content->get<std::string>();
}

const Json* find_member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

/// Of a list of templates the one of that name.
std::optional<std::string> named_template(const Json& object, const char* name) {
  const Json* value = find_member(object, "chat_template");
  if (value == nullptr || !value->is_array()) return std::nullopt;
  for (const Json& entry : *value) {
    if (!entry.is_object() || entry.value("name", Json()) != name) continue;
    const Json* source = find_member(entry, "template");
    if (source != nullptr && source->is_string()) return source->get<std::string>();
  }
  return std::nullopt;
}

/// One template, or a list of them by name, of which `default` is meant (or the only one).
std::optional<std::string> template_of(const Json& object) {
  const Json* value = find_member(object, "chat_template");
  if (value != nullptr && value->is_array() && value->size() == 1 && (*value)[0].is_object()) {
    value = find_member((*value)[0], "template");
  }
  if (value != nullptr && value->is_string()) return value->get<std::string>();
  return named_template(object, "default");
}

/// An empty one is none.
std::optional<std::string> unless_empty(std::optional<std::string> text) {
  return text && text->empty() ? std::nullopt : std::move(text);
}

void append_ids(const Json& value, std::vector<Json>& ids) {
  if (value.is_array()) {
    ids.insert(ids.end(), value.begin(), value.end());
  } else {
    ids.push_back(value);
  }
}

/// Of pieces with the same text the last one, where it stands.
std::vector<AddedPiece> last_of_each_text(const std::vector<AddedPiece>& pieces) {
  std::set<std::string_view> later;
  std::vector<AddedPiece> kept;
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    if (later.insert(piece->text).second) kept.push_back(*piece);
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

}  // namespace

Json added_token_json(const AddedPiece& piece) {
  return {{"id", piece.id},  {"content", piece.text}, {"single_word", false},    {"lstrip", false},
          {"rstrip", false}, {"normalized", false},   {"special", piece.special}};
}

std::optional<std::string> read_text_file(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  const MappedFile file(path);
  std::string text(file.text());
  file.check_whole();
  return text;
}

FolderSettings::FolderSettings(const std::filesystem::path& folder)
    : folder_(folder),
      tokenizer_config_(read_object(folder / "tokenizer_config.json")),
      special_tokens_map_(read_object(folder / "special_tokens_map.json")),
      added_tokens_(read_object(folder / "added_tokens.json")),
      generation_config_(read_object(folder / "generation_config.json")),
      config_(read_object(folder / "config.json")) {}

std::vector<AddedPiece> FolderSettings::added_pieces() const {
  std::vector<AddedPiece> pieces;
  for (const auto& [text, id] : added_tokens_.items()) {
    if (id.is_number_integer() && id >= 0 && id < (1 << 30)) {
      pieces.push_back({id.get<TokenId>(), text, true});
    }
  }
  const Json* decoder = find_member(tokenizer_config_, "added_tokens_decoder");
  if (decoder == nullptr || !decoder->is_object()) return pieces;
  for (const auto& [key, token] : decoder->items()) {
    const auto text = text_of(token);
    const bool is_number =
        !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!text || !is_number) {
      fail("load {}: added_tokens_decoder: expected a token's id and content, found {}",
           quote((folder_ / "tokenizer_config.json").string()), quote(key));
    }
    const bool special = token.value("special", Json()) != false;
    pieces.push_back({std::stoi(key), *text, special});
  }
  return last_of_each_text(pieces);
}

std::int64_t FolderSettings::model_tokens() const {
  const Json* text = find_member(config_, "text_config");
  for (const Json* keys : {text, &config_}) {
    const Json* size = keys && keys->is_object() ? find_member(*keys, "vocab_size") : nullptr;
    if (size && size->is_number_integer()) return size->get<std::int64_t>();
  }
  return 0;
}

std::string FolderSettings::model_type() const {
  const Json* text = find_member(config_, "text_config");
  for (const Json* keys : {text, &config_}) {
    const Json* type = keys && keys->is_object() ? find_member(*keys, "model_type") : nullptr;
    if (type && type->is_string()) return type->get<std::string>();
  }
  return {};
}

std::string FolderSettings::tokenizer_class() const {
  const Json* name = find_member(tokenizer_config_, "tokenizer_class");
  return name && name->is_string() ? name->get<std::string>() : std::string();
}

std::optional<std::string> FolderSettings::token_text(const char* name) const {
  for (const Json* file : {&tokenizer_config_, &special_tokens_map_}) {
    const Json* value = find_member(*file, name);
    if (value == nullptr) continue;
    if (auto text = text_of(*value)) return text;
  }
  return std::nullopt;
}

std::vector<TokenId> FolderSettings::token_ids(const char* name,
                                               const Vocabulary& vocabulary) const {
  std::vector<Json> values;
  for (const Json* file : {&generation_config_, &config_}) {
    if (const Json* value = find_member(*file, name)) append_ids(*value, values);
  }
  std::vector<TokenId> ids;
  for (const Json& value : values) {
    if (!value.is_number_integer() || value < 0) {
      fail("load tokenizer in {}: {}: expected token ids, found {}", quote(folder_.string()), name,
           value.is_number() ? value.dump() : value.type_name());
    }
    if (value < vocabulary.size()) ids.push_back(value.get<TokenId>());
  }
  return ids;
}

std::optional<std::string> FolderSettings::chat_template() const {
  if (auto text = read_text_file(folder_ / "chat_template.jinja")) return text;
  if (auto text = template_of(tokenizer_config_)) return text;
  return template_of(read_object(folder_ / "chat_template.json"));
}

/// A file of its own, or the one of that name beside the default.
std::optional<std::string> FolderSettings::tool_template() const {
  if (auto text = read_text_file(folder_ / "additional_chat_templates" / "tool_use.jinja")) {
    return text;
  }
  if (std::filesystem::exists(folder_ / "chat_template.jinja")) return std::nullopt;
  if (find_member(tokenizer_config_, "chat_template")) {
    return named_template(tokenizer_config_, "tool_use");
  }
  return named_template(read_object(folder_ / "chat_template.json"), "tool_use");
}

void FolderSettings::apply(TokenizerParts& parts) const {
  const std::optional<TokenId> from_post_processor = parts.start_token;
  const auto by_text = [&](const char* name) -> std::optional<TokenId> {
    const auto text = token_text(name);
    return text ? parts.vocabulary.find_piece(*text) : std::nullopt;
  };
  if (const auto start = by_text("bos_token")) {
    parts.start_token = start;
  } else if (const auto ids = token_ids("bos_token_id", parts.vocabulary);
             !parts.start_token && !ids.empty()) {
    parts.start_token = ids.front();
  }
  const bool same_start = from_post_processor == parts.start_token;
  if (!same_start) parts.behind_start.clear();
  const bool wanted = parts.wants_start_token && same_start;
  const Json* add = find_member(tokenizer_config_, "add_bos_token");
  const bool said = add != nullptr && add->is_boolean();
  parts.wants_start_token = (said ? add->get<bool>() : wanted) && parts.start_token.has_value();

  const std::vector<TokenId> of_model = std::exchange(parts.end_tokens, {});
  if (const auto end = by_text("eos_token")) add_end_token(parts.end_tokens, *end);
  for (const TokenId id : token_ids("eos_token_id", parts.vocabulary)) {
    add_end_token(parts.end_tokens, id);
  }
  if (parts.end_tokens.empty()) parts.end_tokens = of_model;
  add_known_end_tokens(parts);
  parts.chat_template = unless_empty(chat_template());
  parts.tool_template = unless_empty(tool_template());
}

}  // namespace talon
