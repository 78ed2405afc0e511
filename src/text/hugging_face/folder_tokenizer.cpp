#include <algorithm>
#include <optional>
#include <set>

#include "core/error.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "io/quote.h"
#include "text/hugging_face/bridge_encoder.h"
#include "text/hugging_face/folder_settings.h"
#include "text/loaders.h"
#include "text/ranked/tiktoken.h"

namespace talon {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizerJson = "tokenizer.json";
constexpr const char* kTokenizerModel = "tokenizer.model";
constexpr const char* kTekken = "tekken.json";
constexpr const char* kTiktokenModel = "tiktoken.model";
constexpr const char* kTiktokenEnding = ".tiktoken";

std::string loading(const fs::path& path) {
  return fmt::format("load tokenizer {}", quote(path.string()));
}

/// The files in `folder` whose names begin and end so, in a fixed order.
std::vector<fs::path> files_named(const fs::path& folder, std::string_view begin,
                                  std::string_view end) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(begin) && name.ends_with(end)) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// The file whose number of tokens is the model's.
fs::path find_tok_bin(const Checkpoint& checkpoint, const fs::path& folder) {
  const auto tokens = checkpoint.metadata.at("vocab_size").get<std::int64_t>();
  std::string tried;
  for (const fs::path& path : files_named(folder, "tok", ".bin")) {
    const int found = load_llama2c_tokenizer(path).vocabulary.size();
    if (found == tokens) return path;
    tried += fmt::format(" ({} has {})", quote(path.filename().string()), found);
  }
  fail("load tokenizer of {}: expected {}, {} or a tok*.bin of {} tokens beside it, found none{}",
       quote(checkpoint.path.string()), kTokenizerJson, kTokenizerModel, tokens, tried);
}

/// Of a tokenizer that gives ranks alone; nothing where there is none.
std::optional<TokenizerFile> find_ranks(const fs::path& folder) {
  using Kind = TokenizerFile::Kind;
  if (fs::exists(folder / kTekken)) return TokenizerFile{Kind::tekken, folder / kTekken};
  if (fs::exists(folder / kTiktokenModel)) {
    return TokenizerFile{Kind::tiktoken, folder / kTiktokenModel};
  }
  if (!fs::is_directory(folder)) return std::nullopt;
  const std::vector<fs::path> files = files_named(folder, "", kTiktokenEnding);
  if (files.size() > 1) {
    fail("load tokenizer in {}: expected one file *{}, found {} and {}", quote(folder.string()),
         kTiktokenEnding, quote(files[0].filename().string()), quote(files[1].filename().string()));
  }
  if (files.empty()) return std::nullopt;
  return TokenizerFile{Kind::tiktoken, files.front()};
}

fs::path folder_of(const Checkpoint& checkpoint) {
  return fs::is_directory(checkpoint.path) ? checkpoint.path : checkpoint.path.parent_path();
}

/// What no tok*.bin is; nothing where there is none.
std::optional<TokenizerFile> find_in_folder(const Checkpoint& checkpoint) {
  using Kind = TokenizerFile::Kind;
  const fs::path folder = folder_of(checkpoint), model = folder / kTokenizerModel;
  if (fs::exists(folder / kTokenizerJson)) {
    return TokenizerFile{Kind::json, folder / kTokenizerJson};
  }
  if (fs::exists(model)) {  // Llama 3's has ranks
    return TokenizerFile{is_tiktoken_file(model) ? Kind::tiktoken : Kind::sentencepiece, model};
  }
  if (checkpoint.format == CheckpointFormat::llama2c) return std::nullopt;
  return find_ranks(folder);
}

/// Texts of `pieces` that may follow the tokens of `known`, without those that it has.
std::set<std::string_view> new_texts(std::span<const AddedPiece> pieces, const Vocabulary& known) {
  std::set<std::string_view> texts;
  for (const AddedPiece& piece : pieces) {
    if (piece.id >= known.size()) texts.insert(piece.text);
  }
  for (TokenId id = 0; id < known.size() && !texts.empty(); ++id) {
    if (known.kind(id) != Vocabulary::Kind::absent) texts.erase(known.piece(id));
  }
  return texts;
}

/// Tokens that only the files beside a tokenizer.json list, as transformers adds them: those that
/// follow its last one and that the model has.
std::vector<AddedPiece> further_pieces(const FolderSettings& settings, const Vocabulary& known) {
  std::vector<AddedPiece> pieces = settings.added_pieces();
  std::sort(pieces.begin(), pieces.end(),
            [](const AddedPiece& a, const AddedPiece& b) { return a.id < b.id; });
  const std::set<std::string_view> texts = new_texts(pieces, known);
  std::vector<AddedPiece> further;
  TokenId next = known.size();
  for (const AddedPiece& piece : pieces) {
    if (piece.id != next || next >= settings.model_tokens() || !texts.contains(piece.text))
      continue;
    further.push_back(piece);
    ++next;
  }
  return further;
}

std::string with_pieces(std::string_view tokenizer_json, std::span<const AddedPiece> pieces,
                        const std::string& doing) {
  Json json = parse_json(tokenizer_json, doing);
  for (const AddedPiece& piece : pieces) json["added_tokens"].push_back(added_token_json(piece));
  return json.dump();
}

}  // namespace

TokenizerParts load_json_tokenizer(const fs::path& tokenizer_json) {
  const MappedFile file(tokenizer_json);
  const std::string doing = loading(tokenizer_json);
  const FolderSettings settings(tokenizer_json.parent_path());
  TokenizerParts parts = load_tokenizer_json(file.text(), doing);
  file.check_whole();
  if (const auto further = further_pieces(settings, parts.vocabulary); !further.empty()) {
    parts = load_tokenizer_json(with_pieces(file.text(), further, doing), doing);
  }
  settings.apply(parts);
  return parts;
}

TokenizerParts load_sentencepiece_tokenizer(const fs::path& tokenizer_model) {
  const MappedFile file(tokenizer_model);
  const std::string doing = loading(tokenizer_model);
  const FolderSettings settings(tokenizer_model.parent_path());
  TokenizerParts parts =
      load_sentencepiece(parse_sentencepiece(file.bytes(), doing), doing, settings.added_pieces());
  file.check_whole();
  settings.apply(parts);
  return parts;
}

bool has_tokenizer_beside(const Checkpoint& checkpoint) {
  return checkpoint.format == CheckpointFormat::llama2c || find_in_folder(checkpoint).has_value();
}

TokenizerFile find_tokenizer_beside(const Checkpoint& checkpoint) {
  if (const auto file = find_in_folder(checkpoint)) return *file;
  const fs::path folder = folder_of(checkpoint);
  if (checkpoint.format == CheckpointFormat::llama2c) {
    return {TokenizerFile::Kind::llama2c, find_tok_bin(checkpoint, folder.empty() ? "." : folder)};
  }
  fail("load tokenizer of {}: expected {}, {}, {}, {} or *{} in {}, found none",
       quote(checkpoint.path.string()), kTokenizerJson, kTokenizerModel, kTekken, kTiktokenModel,
       kTiktokenEnding, quote(folder.string()));
}

TokenizerParts load_tokenizer_beside(const Checkpoint& checkpoint) {
  const TokenizerFile file = find_tokenizer_beside(checkpoint);
  switch (file.kind) {
    case TokenizerFile::Kind::json:
      return load_json_tokenizer(file.path);
    case TokenizerFile::Kind::sentencepiece:
      return load_sentencepiece_tokenizer(file.path);
    case TokenizerFile::Kind::tekken:
      return load_tekken_tokenizer(file.path);
    case TokenizerFile::Kind::tiktoken:
      return load_tiktoken_tokenizer(file.path);
    case TokenizerFile::Kind::llama2c:
      break;
  }
  return load_llama2c_tokenizer(file.path);
}

}  // namespace talon
