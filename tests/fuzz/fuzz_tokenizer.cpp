#include "fuzz_target.h"
#include "io/parse.h"
#include "memory_file.h"
#include "text/detokenizer.h"
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/tokenizer.h"

namespace talon {
namespace {

// The first byte says what the rest is.
Tokenizer make_tokenizer(char source, std::span<const std::byte> rest) {
  if (source == 'g') return Tokenizer::from_gguf(parse_gguf(rest, "fuzz").metadata, "fuzz");
  if (source == 's') parse_sentencepiece(rest, "fuzz");  // from memory of its exact size
  const fuzz::MemoryFile file(rest);
  if (source == 's') return Tokenizer::from_sentencepiece(file.path());
  if (source == 'l') return Tokenizer::from_llama2c(file.path());
  return Tokenizer::from_json_file(file.path());
}

void use(const Tokenizer& tokenizer, std::string_view text) {
  for (const bool parse_special : {false, true}) {
    const auto ids = tokenizer.encode(text, {.parse_special = parse_special, .add_start = true});
    tokenizer.decode(ids);
    Detokenizer stream(tokenizer, parse_special);
    for (const TokenId id : ids) stream.push(id);
    stream.finish();
  }
}

}  // namespace
}  // namespace talon

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace talon;
  if (size == 0) return 0;
  const auto bytes = fuzz::bytes_of(data, size);
  fuzz::run([&] {
    const Tokenizer tokenizer = make_tokenizer(static_cast<char>(data[0]), bytes.subspan(1));
    use(tokenizer, "Once upon a time,\n  12345 caf\xC3\xA9 \xF0\x9F\x98\x80 <s> \xFF\xC3 it's");
    use(tokenizer, fuzz::text_of(bytes.first(std::min<std::size_t>(size, 64))));
  });
  return 0;
}
