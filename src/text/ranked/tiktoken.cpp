#include "text/ranked/tiktoken.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.h"
#include "io/mapped_file.h"
#include "io/quote.h"
#include "text/gguf/pre_tokenizer.h"
#include "text/hugging_face/bridge_encoder.h"
#include "text/hugging_face/folder_settings.h"
#include "text/loaders.h"
#include "text/ranked/ranked_bpe.h"

namespace talon {
namespace {

/// Names of special tokens from `begin` to before `end`.
std::vector<std::string> numbered(std::string_view name, int begin, int end) {
  std::vector<std::string> texts;
  for (int i = begin; i < end; ++i) texts.push_back(fmt::format("<|{}_{}|>", name, i));
  return texts;
}

/// https://github.com/meta-llama/llama-models, models/llama3/tokenizer.py: of Llama 3.1 and later,
/// which name some that Llama 3 reserves.
std::vector<std::string> special_of_llama3(TokenId) {
  std::vector<std::string> texts = {"<|begin_of_text|>",
                                    "<|end_of_text|>",
                                    "<|reserved_special_token_0|>",
                                    "<|reserved_special_token_1|>",
                                    "<|finetune_right_pad_id|>",
                                    "<|reserved_special_token_2|>",
                                    "<|start_header_id|>",
                                    "<|end_header_id|>",
                                    "<|eom_id|>",
                                    "<|eot_id|>",
                                    "<|python_tag|>"};
  for (std::string& text : numbered("reserved_special_token", 3, 248)) {
    texts.push_back(std::move(text));
  }
  return texts;
}

/// https://huggingface.co/Qwen/Qwen-7B, tokenization_qwen.py
std::vector<std::string> special_of_qwen(TokenId) {
  std::vector<std::string> texts = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  for (std::string& text : numbered("extra", 0, 205)) texts.push_back(std::move(text));
  return texts;
}

/// https://huggingface.co/moonshotai/Kimi-K2-Instruct, tokenization_kimi.py: numbered by their ids.
std::vector<std::string> special_of_kimi(TokenId first) {
  return numbered("reserved_token", first, first + 256);
}

/// Whose ranks they are is said beside them: a tokenizer.json would have what this has.
struct TiktokenFamily {
  std::string_view name;
  std::string_view model_type;
  std::string_view tokenizer_class;                    // empty: none of its own
  std::string_view cutting;                            // pre_tokenizer.h
  std::string_view start;                              // begins a text; empty: nothing does
  std::vector<std::string> (*special)(TokenId first);  // that follow the ranks
};

constexpr TiktokenFamily kTiktokenFamilies[] = {
    {"Llama 3", "llama", "", "llama-bpe", "<|begin_of_text|>", special_of_llama3},
    {"Qwen", "qwen", "QWenTokenizer", "qwen2", "", special_of_qwen},
    {"Kimi K2", "kimi_k2", "TikTokenTokenizer", "kimi-k2", "", special_of_kimi},
};

/// The class of the tokenizer tells more than the model, which may be of another's form.
const TiktokenFamily& family_of(const FolderSettings& settings, std::string_view doing) {
  const std::string name = settings.tokenizer_class(), type = settings.model_type();
  for (const TiktokenFamily& family : kTiktokenFamilies) {
    if (!name.empty() && family.tokenizer_class == name) return family;
  }
  for (const TiktokenFamily& family : kTiktokenFamilies) {
    if (family.model_type == type) return family;
  }
  std::vector<std::string_view> known;
  for (const TiktokenFamily& family : kTiktokenFamilies) known.push_back(family.name);
  fail(
      "{}: the file does not say how text is cut: expected a tokenizer of {}, found model_type {} "
      "in config.json and tokenizer_class {} in tokenizer_config.json",
      doing, fmt::join(known, ", "), quote(type), quote(name));
}

struct RankedLine {
  std::string bytes;
  std::size_t rank = 0;
  std::size_t number = 0;  // of the line
};

std::optional<RankedLine> read_ranked_line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const std::size_t space = std::min(line.find(' '), line.size());
  auto bytes = token_of_base64(line.substr(0, space));
  const std::string_view digits = line.substr(std::min(space + 1, line.size()));
  const char* const end = digits.data() + digits.size();
  RankedLine entry;
  const auto [stop, error] = std::from_chars(digits.data(), end, entry.rank);
  if (!bytes || error != std::errc() || stop != end) return std::nullopt;
  entry.bytes = std::move(*bytes);
  return entry;
}

std::vector<RankedLine> read_ranked_lines(std::string_view text, std::string_view doing) {
  std::vector<RankedLine> lines;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t size = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, size);
    text.remove_prefix(std::min(size + 1, text.size()));
    if (line.empty() || line == "\r") continue;
    auto entry = read_ranked_line(line);
    if (!entry) {
      fail("{}: line {}: expected a token in base64, a space and its rank, found {}", doing, number,
           quote(line));
    }
    entry->number = number;
    lines.push_back(std::move(*entry));
  }
  return lines;
}

/// The special tokens of a family, under the names and ids that the folder has for them.
std::vector<AddedPiece> added_of(const TiktokenFamily& family, TokenId first,
                                 const FolderSettings& settings) {
  const std::vector<AddedPiece> listed = settings.added_pieces();
  std::map<TokenId, AddedPiece> by_id;
  TokenId id = first;
  for (const std::string& text : family.special(first)) {
    const bool is_listed = std::ranges::find(listed, text, &AddedPiece::text) != listed.end();
    if (!is_listed) by_id[id] = {id, text};
    ++id;
  }
  for (const AddedPiece& piece : listed) by_id[piece.id] = piece;
  std::vector<AddedPiece> added;
  for (const auto& [place, piece] : by_id) added.push_back(piece);
  return added;
}

/// Many makers' models are of Llama's form: the sizes have to be those of its tokenizer.
void check_llama3_rows(const FolderSettings& settings, const TiktokenFamily& family,
                       std::size_t ranks, std::string_view doing) {
  const auto rows = settings.model_tokens();
  const auto special = static_cast<std::int64_t>(family.special(0).size());
  const auto tokens = static_cast<std::int64_t>(ranks);
  if (!family.tokenizer_class.empty() || rows == 0 || rows == tokens + special) return;
  fail(
      "{}: expected the {} tokens of config.json (vocab_size), as a tokenizer of {} has, found {} "
      "ranks and {} special tokens",
      doing, rows, family.name, tokens, special);
}

RankedBpe read_tiktoken(const std::filesystem::path& path, const FolderSettings& settings,
                        const TiktokenFamily& family, std::string_view doing) {
  const MappedFile file(path);
  RankedBpe bpe;
  bpe.tokens = parse_tiktoken(file.text(), doing);
  file.check_whole();
  check_llama3_rows(settings, family, bpe.tokens.size(), doing);
  bpe.added = added_of(family, static_cast<TokenId>(bpe.tokens.size()), settings);
  bpe.pipeline = Json::parse(find_pre_tokenizer(family.cutting).value().pipeline);
  bpe.pipeline.erase("ignore_merges");  // no part of a pipeline there
  return bpe;
}

std::string loading_tiktoken(const std::filesystem::path& path) {
  return fmt::format("load tokenizer {}", quote(path.string()));
}

}  // namespace

std::vector<std::string> parse_tiktoken(std::string_view text, std::string_view doing) {
  std::vector<RankedLine> lines = read_ranked_lines(text, doing);
  std::vector<std::string> tokens(lines.size());
  std::vector<std::size_t> line_of(lines.size(), 0);
  for (RankedLine& line : lines) {
    if (line.rank >= lines.size()) {
      fail("{}: line {}: expected a rank below {}, the number of tokens, found {}", doing,
           line.number, lines.size(), line.rank);
    }
    std::size_t& known = line_of[line.rank];
    if (known != 0) {
      fail("{}: line {}: expected a new rank, found {} as in line {}", doing, line.number,
           line.rank, known);
    }
    known = line.number;
    tokens[line.rank] = std::move(line.bytes);
  }
  return tokens;
}

bool is_tiktoken_file(const std::filesystem::path& path) {
  constexpr std::size_t kLongestLine = 4096;
  std::ifstream file(path, std::ios::binary);
  std::string head(kLongestLine, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  return read_ranked_line(std::string_view(head).substr(0, head.find('\n'))).has_value();
}

Json tiktoken_as_tokenizer_json(const std::filesystem::path& ranks) {
  const std::string doing = loading_tiktoken(ranks);
  const FolderSettings settings(ranks.parent_path());
  return tokenizer_json_of(read_tiktoken(ranks, settings, family_of(settings, doing), doing),
                           doing);
}

TokenizerParts load_tiktoken_tokenizer(const std::filesystem::path& ranks) {
  const std::string doing = loading_tiktoken(ranks);
  const FolderSettings settings(ranks.parent_path());
  const TiktokenFamily& family = family_of(settings, doing);
  const RankedBpe bpe = read_tiktoken(ranks, settings, family, doing);
  TokenizerParts parts = load_tokenizer_json(tokenizer_json_of(bpe, doing).dump(), doing);
  if (!family.start.empty()) parts.start_token = parts.vocabulary.find_special(family.start);
  parts.wants_start_token = parts.start_token.has_value();
  settings.apply(parts);
  return parts;
}

}  // namespace talon
