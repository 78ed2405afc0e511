#include "serve/api/answer_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <random>

#include "io/quote.h"
#include "io/sha256.h"
#include "serve/api/api_error.h"

namespace talon {
namespace {

constexpr long long kMostTokens = std::numeric_limits<int>::max();
// The engine's own bounds.
constexpr std::size_t kMostStopTexts = 64, kMostStopBytes = 4096;

int int_or(const Fields& fields, std::string_view name, int otherwise, long long least,
           long long most) {
  return static_cast<int>(fields.integer(name, least, most).value_or(otherwise));
}

/// A seed for a request that names none: another each time.
std::uint64_t any_seed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32 | device()) >> 11;  // exact in every JSON
}

/// As llama.cpp says "any" and "no limit".
bool is_minus_one(const Json& value) {
  if (value.is_number_float()) return value.get<double>() == -1;
  const bool is_signed = value.is_number_integer() && !value.is_number_unsigned();
  return is_signed && value.get<std::int64_t>() == -1;
}

void read_max_tokens(const Fields& fields, const FieldNames& names, AnswerFields& answer) {
  for (const std::string_view name : names.max_tokens) {
    const Json* most = fields.find(name);
    if (!most) continue;
    answer.has_no_limit = is_minus_one(*most);
    answer.max_new.reset();
    if (answer.has_no_limit) continue;
    answer.max_new = static_cast<int>(*fields.integer(name, 1, kMostTokens));
  }
}

/// Every number that `talon run --seed` takes, and the negative ones that clients send.
std::optional<std::uint64_t> read_seed(const Fields& fields) {
  const Json* seed = fields.find("seed");
  if (!seed || is_minus_one(*seed)) return std::nullopt;
  if (seed->is_number_unsigned()) return seed->get<std::uint64_t>();
  if (seed->is_number_integer()) return static_cast<std::uint64_t>(seed->get<std::int64_t>());
  constexpr double kExact = 9007199254740992;  // 2^53
  const double number = seed->is_number_float() ? seed->get<double>() : std::nan("");
  if (!(std::fabs(number) <= kExact) || number != std::floor(number)) {
    fields.refuse("seed", fmt::format("a whole number from {} to {}",
                                      std::numeric_limits<std::int64_t>::min(),
                                      std::numeric_limits<std::uint64_t>::max()));
  }
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(number));
}

std::string read_stop_text(const std::string& path, const Json& text) {
  if (!text.is_string() || text.get_ref<const std::string&>().empty()) {
    refuse_field(path, "a text that is not empty", text);
  }
  const std::size_t bytes = text.get_ref<const std::string&>().size();
  if (bytes > kMostStopBytes) {
    throw ApiError(
        400, path,
        fmt::format("{}: expected at most {} bytes, found {}", path, kMostStopBytes, bytes),
        "invalid_value");
  }
  return text.get<std::string>();
}

std::vector<std::string> read_stop_texts(const Fields& fields, std::string_view name,
                                         const RequestLimits& limits) {
  const Json* stop = fields.find(name);
  if (!stop) return {};
  if (stop->is_string()) return {read_stop_text(fields.path_of(name), *stop)};
  const std::size_t most = std::min(kMostStopTexts, static_cast<std::size_t>(limits.stop_texts));
  if (!stop->is_array() || stop->size() > most) {
    fields.refuse(name, fmt::format("a text or at most {} texts", most));
  }
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < stop->size(); ++i) {
    const std::string path = fields.path_of(fmt::format("{}[{}]", name, i));
    texts.push_back(read_stop_text(path, (*stop)[i]));
  }
  return texts;
}

std::vector<std::pair<TokenId, float>> read_logit_bias(const Fields& fields, int most,
                                                       int vocabulary) {
  constexpr double kMostBias = 100;
  const Json* bias = fields.find("logit_bias");
  if (!bias) return {};
  if (!bias->is_object() || bias->size() > static_cast<std::size_t>(most)) {
    fields.refuse("logit_bias", fmt::format("an object of at most {} token ids", most));
  }
  std::vector<std::pair<TokenId, float>> entries;
  for (const auto& [key, value] : bias->items()) {
    TokenId token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    const bool is_token =
        error == std::errc() && end == key.data() + key.size() && token >= 0 && token < vocabulary;
    if (!is_token) {
      throw ApiError(400, "logit_bias",
                     fmt::format("logit_bias: expected token ids from 0 to {}, found {}",
                                 vocabulary - 1, quote(key)),
                     "invalid_value");
    }
    const double number = value.is_number() ? value.get<double>() : kMostBias + 1;
    if (!(number >= -kMostBias && number <= kMostBias)) {
      refuse_field(fmt::format("logit_bias.{}", token), "a number from -100 to 100", value);
    }
    entries.emplace_back(token, static_cast<float>(number));
  }
  return entries;
}

/// llama.cpp's, which looks at the last tokens alone.
void read_repeat_penalty(const Fields& fields, SamplerOptions& sampler) {
  const int last = int_or(fields, "repeat_last_n", 64, -1, kMostTokens);
  const double penalty = fields.number("repeat_penalty", 0.01, 100).value_or(1);
  if (penalty == 1 || last == 0) return;
  sampler.repetition_penalty = penalty;
  sampler.penalty_window = std::max(0, last);
}

SamplerOptions read_sampler(const Fields& fields, const RequestLimits& limits, int vocabulary) {
  SamplerOptions sampler;
  sampler.temperature = fields.number("temperature", 0, 100).value_or(1);
  sampler.top_k = std::max(0, int_or(fields, "top_k", 0, -1, kMostTokens));
  sampler.top_p = fields.number("top_p", 0, 1).value_or(1);
  if (sampler.top_p == 0) sampler.top_p = std::numeric_limits<double>::min();
  sampler.min_p = fields.number("min_p", 0, 1).value_or(0);
  sampler.typical_p = fields.number("typical_p", 0, 1).value_or(1);
  if (sampler.typical_p == 0) fields.refuse("typical_p", "a number more than 0 and at most 1");
  sampler.presence_penalty = fields.number("presence_penalty", -100, 100).value_or(0);
  sampler.frequency_penalty = fields.number("frequency_penalty", -100, 100).value_or(0);
  sampler.repetition_penalty = fields.number("repetition_penalty", 0.01, 100).value_or(1);
  read_repeat_penalty(fields, sampler);
  check_sampler_order(fields, sampler);
  sampler.logit_bias = read_logit_bias(fields, limits.logit_bias, vocabulary);
  return sampler;
}

/// Texts of tenants with other salts share no rows of the cache.
std::uint64_t tenant_of(const std::string& salt) {
  std::uint64_t tenant = 0;
  const std::string digest = sha256_of(std::as_bytes(std::span(salt)));
  std::from_chars(digest.data(), digest.data() + 16, tenant, 16);
  return tenant;
}

void read_talon(const Fields& fields, AnswerFields& answer) {
  constexpr long long kLongestMs = 24LL * 3600 * 1000;
  const auto talon = fields.object("talon");
  if (!talon) return;
  talon->allow_only(std::vector<std::string_view>{"drafter", "policy", "verify", "deadline_ms",
                                                  "metrics", "trace"});
  answer.method.drafter = talon->text("drafter").value_or("");
  answer.method.policy = talon->text("policy").value_or("");
  answer.method.verify = talon->text("verify").value_or("");
  if (const auto ms = talon->integer("deadline_ms", 1, kLongestMs)) {
    answer.deadline_ms = static_cast<int>(*ms);
  }
  answer.returns_metrics = talon->flag("metrics").value_or(false);
  answer.traces = talon->flag("trace").value_or(false);
}

}  // namespace

std::vector<TokenId> read_tokens(const std::string& path, const Json& list, int vocabulary) {
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json& token = list[i];
    const bool is_token = token.is_number_integer() && token.get<long long>() >= 0 &&
                          token.get<long long>() < vocabulary;
    if (!is_token) {
      refuse_field(fmt::format("{}[{}]", path, i),
                   fmt::format("a token id from 0 to {}", vocabulary - 1), token);
    }
    tokens.push_back(token.get<TokenId>());
  }
  return tokens;
}

AnswerFields read_answer_fields(const Fields& fields, const RequestLimits& limits, int vocabulary,
                                const FieldNames& names) {
  AnswerFields answer;
  answer.choices = int_or(fields, "n", 1, 1, limits.choices);
  if (int_or(fields, "n_cmpl", answer.choices, 1, limits.choices) != answer.choices) {
    fields.refuse("n_cmpl", "the same as n");
  }
  read_max_tokens(fields, names, answer);
  answer.min_new = int_or(fields, "min_tokens", 0, 0, answer.max_new.value_or(kMostTokens));
  answer.sampler = read_sampler(fields, limits, vocabulary);
  const auto seed = read_seed(fields);
  answer.seed = seed ? *seed : any_seed();
  answer.stop_texts = read_stop_texts(fields, names.stop, limits);
  if (const Json* tokens = fields.array("stop_token_ids", 1024)) {
    answer.stop_tokens = read_tokens("stop_token_ids", *tokens, vocabulary);
  }
  answer.ignore_end = fields.flag("ignore_eos").value_or(false);
  answer.streams = fields.flag("stream").value_or(false);
  if (const auto options = fields.object("stream_options")) {
    answer.includes_usage = options->flag("include_usage").value_or(false);
  }
  answer.returns_tokens = fields.flag("return_token_ids").value_or(false);
  if (const auto salt = fields.text("cache_salt")) answer.tenant = tenant_of(*salt);
  answer.priority = int_or(fields, "priority", 0, -1'000'000, 1'000'000);
  fields.text("user");
  read_talon(fields, answer);
  return answer;
}

}  // namespace talon
