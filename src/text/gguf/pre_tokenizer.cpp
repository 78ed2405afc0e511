#include "text/gguf/pre_tokenizer.h"

#include <span>

#include "io/json.h"

namespace talon {
namespace {

/// One step of a pre-tokenizer, as the library `tokenizers` knows it.
struct Step {
  enum class Kind {
    split,             // each match of `pattern` is a piece, what lies between others
    split_before,      // each match begins the piece that follows it
    digits,            // each digit alone
    runs_of_digits,    // digits apart from all else
    punctuation,       // runs of punctuation
    byte_level_words,  // bytes spelled as characters, cut with GPT-2's expression
    byte_level,        // bytes spelled as characters
  };
  Kind kind = Kind::split;
  std::string_view pattern;  // Oniguruma syntax; characters beyond ASCII as code points
};

/// What is common to all names of one way to cut a text.
struct PreTokenization {
  std::span<const Step> steps;
  bool composes = false;        // text is normalized to NFC first
  bool ignores_merges = false;  // a piece that is a token is taken whole
};

constexpr Step split(std::string_view pattern) { return {Step::Kind::split, pattern}; }
constexpr Step split_before(std::string_view pattern) {
  return {Step::Kind::split_before, pattern};
}
constexpr Step kDigits{Step::Kind::digits, {}};
constexpr Step kByteLevelWords{Step::Kind::byte_level_words, {}};
constexpr Step kByteLevel{Step::Kind::byte_level, {}};
constexpr Step kQwen2Words = split(
    R"x((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)x");
constexpr Step kGpt4oWords = split(
    R"x([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)x");

constexpr Step kGpt2Steps[] = {kByteLevelWords};
constexpr Step kSingleDigitsSteps[] = {kDigits, kByteLevelWords};
constexpr Step kFalconSteps[] = {{Step::Kind::punctuation, {}},
                                 kByteLevelWords,
                                 {Step::Kind::runs_of_digits, {}},
                                 split(R"x([0-9][0-9][0-9])x")};
constexpr Step kLlama3Steps[] = {
    split(
        R"x((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)x"),
    kByteLevel};
constexpr Step kQwen2Steps[] = {kQwen2Words, kByteLevel};
constexpr Step kQwen35Steps[] = {
    split(
        R"x((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)x"),
    kByteLevel};
constexpr Step kUfakzekaSteps[] = {
    split(R"x([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)x"),
    kByteLevel};
constexpr Step kLagunaSteps[] = {split_before(R"x((?:\r?\n)+(?!\r?\n))x"), kQwen2Words, kByteLevel};
constexpr Step kSeedCoderSteps[] = {
    split(
        R"x((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)x"),
    kByteLevel};
constexpr Step kBailingSteps[] = {
    split(
        R"x('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)x"),
    kByteLevel};
constexpr Step kExaoneMoeSteps[] = {
    split(
        R"x((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)x"),
    kByteLevel};
constexpr Step kMiniCpm5Steps[] = {
    split(R"x(\p{N}{1,3})x"),
    split(
        R"x((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)x"),
    kByteLevel};
constexpr Step kJais2Steps[] = {
    split(
        R"x((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})x"),
    kByteLevel};
constexpr Step kTekkenSteps[] = {
    split(
        R"x([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)x"),
    kByteLevel};
constexpr Step kGpt4oSteps[] = {kGpt4oWords, kByteLevel};
constexpr Step kTinyAyaSteps[] = {split(R"x(\d{1,3}(?=(?:\d{3})*\b))x"), kGpt4oWords, kByteLevel};
constexpr Step kKimiK2Steps[] = {
    split(
        R"x([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)x"),
    kByteLevel};
constexpr Step kYoutuSteps[] = {
    split(
        R"x([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)x"),
    split(
        R"x([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)x"),
    kByteLevel};
constexpr Step kSuperBpeSteps[] = {split(R"x(\p{N}+)x"), split(R"x((?=(\d{3})+(?!\d)))x"),
                                   kByteLevel};
constexpr Step kBloomSteps[] = {
    split(R"x( ?[^(\s|[.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C}])]+)x"),
    kByteLevel};
constexpr Step kVikingSteps[] = {
    split(R"x( ?[^(\s|[.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C}])]+)x"), kDigits,
    kByteLevel};
constexpr Step kChameleonSteps[] = {
    split(R"x(<sentinel:[0-9]+>)x"),    split(R"x((IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z)x"),
    split(R"x(([\t\n]|    |  ))x"),     kDigits,
    split(R"x([\p{P}!-/:-@\[-`{-~])x"), kByteLevelWords};
constexpr Step kDeepSeekLlmSteps[] = {
    split(R"x([\r\n])x"),
    split(
        R"x(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)x"),
    split(R"x(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)x"),
    split(R"x(\s+$)x"),
    split(R"x([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)x"),
    split(R"x(\p{N}+)x"),
    kByteLevel};
constexpr Step kDeepSeekCoderSteps[] = {
    split(R"x([\r\n])x"),    split(R"x(\s?\p{L}+)x"),
    split(R"x(\s?\p{P}+)x"), split(R"x([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)x"),
    split(R"x(\p{N})x"),     kByteLevel};
constexpr Step kDeepSeekV3Steps[] = {
    split(R"x(\p{N}{1,3})x"), split(R"x([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)x"),
    split(
        R"x([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)x"),
    kByteLevel};
constexpr Step kSparkSteps[] = {
    split(R"x(\p{N}{1,3})x"), split(R"x([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)x"),
    split(
        R"x([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)x"),
    split(R"x(\p{N})x"), kByteLevel};
constexpr Step kAfmoeSteps[] = {
    split(R"x(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))x"),
    split(
        R"x([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)x"),
    split(
        R"x([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)x"),
    kByteLevel};

constexpr PreTokenization kGpt2{kGpt2Steps};
constexpr PreTokenization kGpt2Composed{kGpt2Steps, true};
constexpr PreTokenization kSingleDigits{kSingleDigitsSteps};
constexpr PreTokenization kCommandR{kSingleDigitsSteps, true};
constexpr PreTokenization kFalcon{kFalconSteps};
constexpr PreTokenization kLlama3{kLlama3Steps, false, true};
constexpr PreTokenization kCl100k{kLlama3Steps};
constexpr PreTokenization kQwen2{kQwen2Steps, true};
constexpr PreTokenization kQwen2Raw{kQwen2Steps};
constexpr PreTokenization kQwen35{kQwen35Steps, true};
constexpr PreTokenization kUfakzeka{kUfakzekaSteps};
constexpr PreTokenization kLaguna{kLagunaSteps};
constexpr PreTokenization kSeedCoder{kSeedCoderSteps};
constexpr PreTokenization kBailing{kBailingSteps};
constexpr PreTokenization kExaoneMoe{kExaoneMoeSteps};
constexpr PreTokenization kMiniCpm5{kMiniCpm5Steps, false, true};
constexpr PreTokenization kJais2{kJais2Steps};
constexpr PreTokenization kTekken{kTekkenSteps, false, true};
constexpr PreTokenization kGpt4o{kGpt4oSteps};
constexpr PreTokenization kGraniteEmbedding{kGpt4oSteps, false, true};
constexpr PreTokenization kTinyAya{kTinyAyaSteps};
constexpr PreTokenization kKimiK2{kKimiK2Steps, false, true};
constexpr PreTokenization kYoutu{kYoutuSteps, false, true};
constexpr PreTokenization kSuperBpe{kSuperBpeSteps};
constexpr PreTokenization kBloom{kBloomSteps};
constexpr PreTokenization kViking{kVikingSteps};
constexpr PreTokenization kChameleon{kChameleonSteps};
constexpr PreTokenization kDeepSeekLlm{kDeepSeekLlmSteps};
constexpr PreTokenization kDeepSeekCoder{kDeepSeekCoderSteps};
constexpr PreTokenization kDeepSeekV3{kDeepSeekV3Steps};
constexpr PreTokenization kSpark{kSparkSteps};
constexpr PreTokenization kAfmoe{kAfmoeSteps};

struct Named {
  std::string_view name;
  const PreTokenization& cutting;
  bool adds_start = false;
};

// Left out: a name of tokenizers that only encoders of texts have (whitespace).
constexpr Named kNamed[] = {
    {"default", kGpt2},
    {"gpt-2", kGpt2},
    {"phi-2", kGpt2},
    {"gigachat", kGpt2},
    {"a.x-4.0", kGpt2},
    {"mellum", kGpt2},
    {"exaone4", kGpt2},
    {"jais", kGpt2},
    {"trillion", kGpt2},
    {"granite-docling", kGpt2},
    {"jina-es", kGpt2},
    {"jina-de", kGpt2},
    {"jina-v2-es", kGpt2},
    {"jina-v2-de", kGpt2},
    {"jina-v1-en", kGpt2},
    {"jina-v2-code", kGpt2},
    {"roberta-bpe", kGpt2},
    {"mpt", kGpt2Composed},
    {"olmo", kGpt2Composed},
    {"modern-bert", kGpt2Composed},
    {"smollm", kSingleDigits},
    {"starcoder", kSingleDigits},
    {"refact", kSingleDigits},
    {"codeshell", kSingleDigits},
    {"exaone", kSingleDigits},
    {"minerva-7b", kSingleDigits},
    {"mellum2", kSingleDigits},
    {"command-r", kCommandR},
    {"falcon", kFalcon},
    {"llama-bpe", kLlama3, true},
    {"llama3", kLlama3, true},
    {"llama-v3", kLlama3, true},
    {"falcon3", kLlama3, true},
    {"falcon-h1", kLlama3, true},
    {"pixtral", kLlama3, true},
    {"midm-2.0", kLlama3, true},
    {"lfm2", kLlama3, true},
    {"jina-v5-nano", kLlama3, true},
    {"dbrx", kCl100k},
    {"smaug-bpe", kCl100k},
    {"glm4", kLlama3},
    {"glm5", kLlama3},
    {"chatglm-bpe", kLlama3},
    {"qwen2", kQwen2},
    {"deepseek-r1-qwen", kQwen2},
    {"kormo", kQwen2},
    {"f2llmv2", kQwen2},
    {"megrez", kQwen2},
    {"stablelm2", kQwen2},
    {"hunyuan", kQwen2Raw},
    {"solar-open", kQwen2Raw},
    {"grok-2", kQwen2Raw},
    {"qwen35", kQwen35},
    {"ufakzeka", kUfakzeka},
    {"laguna", kLaguna},
    {"seed-coder", kSeedCoder},
    {"bailingmoe", kBailing},
    {"bailingmoe2", kBailing},
    {"llada-moe", kBailing},
    {"exaone-moe", kExaoneMoe},
    {"minicpm5", kMiniCpm5},
    {"jais-2", kJais2},
    {"tekken", kTekken, true},
    {"gpt-4o", kGpt4o},
    {"llama4", kGpt4o},
    {"kanana2", kGpt4o},
    {"talkie", kGpt4o},
    {"minimax-m2", kGpt4o},
    {"granite-embed-multi-97m", kGraniteEmbedding},
    {"tiny_aya", kTinyAya},
    {"cohere2moe", kTinyAya},
    {"kimi-k2", kKimiK2},
    {"youtu", kYoutu},
    {"superbpe", kSuperBpe},
    {"bloom", kBloom},
    {"gpt3-finnish", kBloom},
    {"poro-chat", kBloom},
    {"viking", kViking},
    {"chameleon", kChameleon, true},
    {"deepseek-llm", kDeepSeekLlm},
    {"deepseek-coder", kDeepSeekCoder},
    {"deepseek-v3", kDeepSeekV3},
    {"hunyuan-dense", kDeepSeekV3},
    {"joyai-llm", kDeepSeekV3},
    {"hy_v4", kDeepSeekV3},
    {"spark2_5", kSpark},
    {"afmoe", kAfmoe},
};

Json byte_level(bool cuts_words) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", cuts_words}};
}

Json split_json(const Step& step, std::string_view behavior) {
  return {{"type", "Split"},
          {"behavior", behavior},
          {"invert", false},
          {"pattern", {{"Regex", step.pattern}}}};
}

Json digits(bool each_alone) { return {{"type", "Digits"}, {"individual_digits", each_alone}}; }

Json step_json(const Step& step) {
  switch (step.kind) {
    case Step::Kind::split:
      return split_json(step, "Isolated");
    case Step::Kind::split_before:
      return split_json(step, "MergedWithNext");
    case Step::Kind::digits:
      return digits(true);
    case Step::Kind::runs_of_digits:
      return digits(false);
    case Step::Kind::punctuation:
      return {{"type", "Punctuation"}, {"behavior", "Contiguous"}};
    case Step::Kind::byte_level_words:
      return byte_level(true);
    case Step::Kind::byte_level:
      break;
  }
  return byte_level(false);
}

std::string pipeline_of(const PreTokenization& cutting) {
  Json steps = Json::array();
  for (const Step& step : cutting.steps) steps.push_back(step_json(step));
  Json pipeline = {{"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", steps}}},
                   {"ignore_merges", cutting.ignores_merges}};
  if (cutting.composes) pipeline["normalizer"] = {{"type", "NFC"}};
  return pipeline.dump();
}

}  // namespace

std::optional<PreTokenizer> find_pre_tokenizer(std::string_view name) {
  for (const Named& known : kNamed) {
    if (known.name == name) return PreTokenizer{pipeline_of(known.cutting), known.adds_start};
  }
  return std::nullopt;
}

std::vector<std::string_view> pre_tokenizer_names() {
  std::vector<std::string_view> names;
  for (const Named& known : kNamed) names.push_back(known.name);
  return names;
}

}  // namespace talon
