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
  std::vector<TokenId> ids =
      is_well_formed(text) ? parts.encoder->encode(text, options.parse_special)
                           : parts.encoder->encode(replace_ill_formed(text), options.parse_special);
  const bool add = options.add_start && parts.wants_start_token;
  // A template may have written the start token itself.
  if (add && (ids.empty() || ids.front() != *parts.start_token)) {
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

int Tokenizer::vocabulary_size() const { return impl_->parts.vocabulary.size(); }
std::optional<TokenId> Tokenizer::start_token() const { return impl_->parts.start_token; }
bool Tokenizer::wants_start_token() const { return impl_->parts.wants_start_token; }
const std::vector<TokenId>& Tokenizer::end_tokens() const { return impl_->parts.end_tokens; }
bool Tokenizer::drops_first_space() const { return impl_->parts.drops_first_space; }
std::string_view Tokenizer::kind() const { return impl_->parts.kind; }

const std::optional<std::string>& Tokenizer::chat_template() const {
  return impl_->parts.chat_template;
}

std::string Tokenizer::start_text() const {
  return start_token() ? bytes_of(*start_token()) : std::string();
}

std::string Tokenizer::end_text() const {
  return end_tokens().empty() ? std::string() : bytes_of(end_tokens().front());
}

}  // namespace talon
