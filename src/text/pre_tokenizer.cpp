#include "text/pre_tokenizer.h"

#include <algorithm>
#include <iterator>

namespace talon {
namespace {

constexpr std::string_view kGpt2 = R"({
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}})";

constexpr std::string_view kSingleDigits = R"({
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Digits", "individual_digits": true},
    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]}})";

constexpr std::string_view kLlama3 = R"({
  "ignore_merges": true,
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex":
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]}})";

constexpr std::string_view kQwen2 = R"({
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex":
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]}})";

constexpr PreTokenizer kPreTokenizers[] = {
    {"default", kGpt2},        {"gpt-2", kGpt2},
    {"smollm", kSingleDigits}, {"llama-bpe", kLlama3, true},
    {"llama3", kLlama3, true}, {"llama-v3", kLlama3, true},
    {"qwen2", kQwen2},         {"deepseek-r1-qwen", kQwen2},
};

}  // namespace

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  const auto* found = std::find_if(std::begin(kPreTokenizers), std::end(kPreTokenizers),
                                   [&](const PreTokenizer& known) { return known.name == name; });
  return found == std::end(kPreTokenizers) ? nullptr : found;
}

std::string pre_tokenizer_names() {
  std::string names;
  for (const PreTokenizer& known : kPreTokenizers) {
    if (!names.empty()) names += ", ";
    names += known.name;
  }
  return names;
}

}  // namespace talon
