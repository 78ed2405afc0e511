#include "text/tokenizer.h"

#include <utility>

#include "core/error.h"
#include "text/encoder.h"
#include "text/loaders.h"
#include "text/utf8.h"

namespace talon {

struct Tokenizer::Impl {
  TokenizerParts parts;
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Tokenizer Tokenizer::for_checkpoint(const Checkpoint& checkpoint) {
  if (checkpoint.format == CheckpointFormat::gguf) {
    return from_gguf(checkpoint.metadata, checkpoint.path.filename().string());
  }
  return Tokenizer(std::make_unique<Impl>(Impl{load_tokenizer_beside(checkpoint)}));
}

Tokenizer Tokenizer::from_json_file(const std::filesystem::path& tokenizer_json) {
  return Tokenizer(std::make_unique<Impl>(Impl{load_json_tokenizer(tokenizer_json)}));
}

Tokenizer Tokenizer::from_sentencepiece(const std::filesystem::path& tokenizer_model) {
  return Tokenizer(std::make_unique<Impl>(Impl{load_sentencepiece_tokenizer(tokenizer_model)}));
}

Tokenizer Tokenizer::from_gguf(const Json& metadata, std::string_view file_name) {
  return Tokenizer(std::make_unique<Impl>(Impl{load_gguf_tokenizer(metadata, file_name)}));
}

Tokenizer Tokenizer::from_llama2c(const std::filesystem::path& tok_bin) {
  return Tokenizer(std::make_unique<Impl>(Impl{load_llama2c_tokenizer(tok_bin)}));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  const TokenizerParts& parts = impl_->parts;
  const bool well_formed = is_well_formed(text);
  expects(well_formed || options.own.empty(), "text with parts of its own is well-formed");
  const std::string mended = well_formed ? std::string() : replace_ill_formed(text);
  const std::string_view read = well_formed ? text : mended;
  const TextRange whole{0, read.size()};
  const std::span<const TextRange> own =
      options.parse_special ? options.own : std::span<const TextRange>(&whole, 1);
  std::vector<TokenId> ids = parts.encoder->encode(read, own);
  const bool add = options.add_start && parts.wants_start_token;
  // A template may have written the start token itself.
  if (add && (ids.empty() || ids.front() != *parts.start_token)) {
    ids.insert(ids.begin(), parts.behind_start.begin(), parts.behind_start.end());
    ids.insert(ids.begin(), *parts.start_token);
  }
  return ids;
}

std::string Tokenizer::bytes_of(TokenId id) const {
  const Vocabulary& vocabulary = impl_->parts.vocabulary;
  return vocabulary.contains(id) ? std::string(vocabulary.bytes(id)) : std::string();
}

std::string Tokenizer::piece_of(TokenId id) const {
  const Vocabulary& vocabulary = impl_->parts.vocabulary;
  return vocabulary.contains(id) ? std::string(vocabulary.piece(id)) : std::string();
}

bool Tokenizer::is_special(TokenId id) const {
  const Vocabulary& vocabulary = impl_->parts.vocabulary;
  return vocabulary.contains(id) && vocabulary.kind(id) == Vocabulary::Kind::special;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string text;
  for (const TokenId id : ids) {
    if (!skip_special || !is_special(id)) text += bytes_of(id);
  }
  if (drops_first_space() && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

std::vector<std::string> Tokenizer::special_texts() const {
  std::vector<std::string> texts;
  for (const TokenId id : impl_->parts.vocabulary.special()) texts.push_back(bytes_of(id));
  return texts;
}

std::size_t Tokenizer::longest_token() const { return impl_->parts.vocabulary.longest(); }
int Tokenizer::vocabulary_size() const { return impl_->parts.vocabulary.size(); }
std::optional<TokenId> Tokenizer::start_token() const { return impl_->parts.start_token; }
bool Tokenizer::wants_start_token() const { return impl_->parts.wants_start_token; }
const std::vector<TokenId>& Tokenizer::end_tokens() const { return impl_->parts.end_tokens; }
bool Tokenizer::drops_first_space() const { return impl_->parts.drops_first_space; }
std::string_view Tokenizer::kind() const { return impl_->parts.kind; }

const std::optional<std::string>& Tokenizer::chat_template() const {
  return impl_->parts.chat_template;
}

const std::optional<std::string>& Tokenizer::tool_template() const {
  return impl_->parts.tool_template;
}

std::string Tokenizer::start_text() const {
  return start_token() ? bytes_of(*start_token()) : std::string();
}

std::string Tokenizer::end_text() const {
  return end_tokens().empty() ? std::string() : bytes_of(end_tokens().front());
}

bool has_rows_for_text(const Tokenizer& tokenizer, int rows) {
  for (TokenId id = rows; id < tokenizer.vocabulary_size(); ++id) {
    if (!tokenizer.is_special(id) && !tokenizer.bytes_of(id).empty()) return false;
  }
  return true;
}

}  // namespace talon
