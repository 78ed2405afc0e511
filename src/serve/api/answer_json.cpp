#include "serve/api/answer_json.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <random>
#include <set>

#include "serve/predicted_tokens.h"
#include "text/detokenizer.h"
#include "text/utf8.h"

namespace talon {
namespace {

constexpr double kLeastLogP = -9999;

/// Sums over the choices of one request.
struct Totals {
  int prompt = 0, reused = 0, unread = 0, answer = 0;
  double prefill_ms = 0, decode_ms = 0;  // of the one that took longest
  long drafts = 0, drafted = 0, accepted = 0;
  std::vector<long> histogram;  // drafts by accepted tokens
};

Totals totals_of(const AnswerHead& head, const std::vector<ChoiceResult>& choices) {
  Totals totals;
  for (const auto& prompt : head.prompts) totals.prompt += static_cast<int>(prompt.size());
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const SequenceStatistics& of = choices[i].statistics;
    if (i % static_cast<std::size_t>(head.fields.choices) == 0) {
      totals.reused += of.reused_tokens;
      totals.unread += of.unread_tokens;
    }
    totals.answer += of.answer_tokens;
    totals.prefill_ms = std::max(totals.prefill_ms, of.prefill_ms);
    totals.decode_ms = std::max(totals.decode_ms, of.decode_ms);
    for (std::size_t round = 0; round < of.drafted.size(); ++round) {
      if (of.drafted[round] == 0) continue;
      ++totals.drafts;
      totals.drafted += of.drafted[round];
      totals.accepted += of.accepted[round];
      const auto place = static_cast<std::size_t>(of.accepted[round]);
      totals.histogram.resize(std::max(totals.histogram.size(), place + 1));
      ++totals.histogram[place];
    }
  }
  return totals;
}

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

Json timings_json(const Totals& totals) {
  const int computed = totals.prompt - totals.reused - totals.unread;
  return {{"cache_n", totals.reused},
          {"prompt_n", computed},
          {"prompt_ms", totals.prefill_ms},
          {"prompt_per_second", ratio(computed * 1000.0, totals.prefill_ms)},
          {"predicted_n", totals.answer},
          {"predicted_ms", totals.decode_ms},
          {"predicted_per_second", ratio(totals.answer * 1000.0, totals.decode_ms)},
          {"draft_n", totals.drafted},
          {"draft_n_accepted", totals.accepted}};
}

Json speculation_json(const Totals& totals, const std::vector<ChoiceResult>& choices) {
  int largest = 0;
  for (const ChoiceResult& choice : choices) {
    for (const int nodes : choice.statistics.drafted) largest = std::max(largest, nodes);
  }
  const auto drafts = static_cast<double>(totals.drafts);
  const auto accepted = static_cast<double>(totals.accepted);
  return {{"mean_acceptance_length", 1 + ratio(accepted, drafts)},
          {"draft_acceptance_rate", ratio(accepted, static_cast<double>(totals.drafted))},
          {"acceptance_histogram", totals.histogram},
          {"num_spec_steps", totals.drafts},
          {"num_accepted_draft_tokens", totals.accepted},
          {"num_draft_tokens", totals.drafted},
          {"num_spec_tokens", largest}};
}

/// Why answers ended that neither their text nor their length ended.
Json ended_json(const std::vector<ChoiceResult>& choices) {
  std::set<std::string> reasons;
  for (const ChoiceResult& choice : choices) {
    const bool is_early = choice.finish == FinishReason::cancelled ||
                          choice.finish == FinishReason::deadline ||
                          choice.finish == FinishReason::no_room;
    if (is_early) reasons.emplace(name_of(choice.finish));
  }
  return reasons.empty() ? Json() : Json(*reasons.begin());
}

Json completion_details(const AnswerHead& head, const std::vector<ChoiceResult>& choices) {
  int reasoning = 0, accepted = 0, rejected = 0;
  for (const ChoiceResult& choice : choices) {
    reasoning += reasoning_tokens(head, choice);
    if (!head.fields.expected) continue;
    const int came = predicted_tokens(*head.fields.expected, choice.tokens);
    accepted += came;
    rejected += static_cast<int>(head.fields.expected->size()) - came;
  }
  return {{"reasoning_tokens", reasoning},
          {"accepted_prediction_tokens", accepted},
          {"rejected_prediction_tokens", rejected}};
}

}  // namespace

Json seed_json(std::uint64_t seed) {
  if (seed == std::numeric_limits<std::uint64_t>::max()) return seed;
  return static_cast<std::int64_t>(seed);
}

Json usage_json(const AnswerHead& head, const std::vector<ChoiceResult>& choices) {
  const Totals totals = totals_of(head, choices);
  return {{"prompt_tokens", totals.prompt},
          {"completion_tokens", totals.answer},
          {"total_tokens", totals.prompt + totals.answer},
          {"prompt_tokens_details", {{"cached_tokens", totals.reused}}},
          {"completion_tokens_details", completion_details(head, choices)}};
}

void add_statistics(Json& answer, const AnswerHead& head,
                    const std::vector<ChoiceResult>& choices) {
  const Totals totals = totals_of(head, choices);
  answer["timings"] = timings_json(totals);
  Json own = {{"seed", seed_json(head.fields.seed)}, {"drafter", head.drafter}};
  if (const Json ended = ended_json(choices); !ended.is_null()) own["ended"] = ended;
  answer["talon"] = std::move(own);
  if (head.fields.returns_metrics) {
    answer["metrics"] = {{"speculative_decoding", speculation_json(totals, choices)}};
  }
}

std::string stream_end(Json last, const AnswerHead& head,
                       const std::vector<ChoiceResult>& choices) {
  std::string piece;
  if (head.fields.includes_usage || head.fields.returns_metrics) {
    last["choices"] = Json::array();
    if (head.fields.includes_usage) last["usage"] = usage_json(head, choices);
    add_statistics(last, head, choices);
    piece = event(last);
  }
  return piece + "data: [DONE]\n\n";
}

void add_rounds(Json& choice, const AnswerHead& head, const ChoiceNews& news) {
  if (!head.fields.traces || news.rounds.empty()) return;
  Json& rounds = choice["talon"]["rounds"] = Json::array();
  for (const RoundTrace& round : news.rounds) {
    rounds.push_back(trace_json(round, head.model->tokenizer()));
  }
}

Json finish_json(FinishReason reason) {
  switch (reason) {
    case FinishReason::none:
      return nullptr;
    case FinishReason::stop_token:
    case FinishReason::complete:
    case FinishReason::stop_text:
      return "stop";
    default:
      return "length";
  }
}

Json finish_json(FinishReason reason, bool calls) {
  Json finish = finish_json(reason);
  return calls && finish == "stop" ? Json("tool_calls") : finish;
}

std::string new_call_id(ToolDialect dialect) {
  // Templates of that family take names of nine letters and digits only.
  if (dialect == ToolDialect::mistral) return new_id("").substr(0, 9);
  return new_id("call_");
}

int reasoning_tokens(const AnswerHead& head, const ChoiceResult& choice) {
  const AnswerStyle& style = head.fields.style;
  if (!style.reasons && style.dialect != ToolDialect::harmony) return 0;
  Detokenizer detokenizer(head.model->tokenizer(), !style.shows_special());
  const auto reader = make_reader(style);
  int count = 0, silent = 0;  // silent: the last ones, which made nothing yet
  for (std::size_t i = 0; i <= choice.tokens.size(); ++i) {
    const bool is_over = i == choice.tokens.size();
    AnswerReader::Parts parts;
    reader->read(is_over ? detokenizer.finish() : detokenizer.push(choice.tokens[i]), parts);
    if (is_over) reader->finish(parts);
    if (!is_over) ++silent;
    if (parts.empty()) continue;
    if (parts.front().kind == AnswerPart::Kind::reasoning) count += silent;
    silent = 0;
  }
  return count;
}

std::string token_text(const Tokenizer& tokenizer, TokenId token) {
  return replace_ill_formed(tokenizer.bytes_of(token));
}

double finite_log_p(double log_p) { return std::max(log_p, kLeastLogP); }

Json chat_logprob(const Tokenizer& tokenizer, const TokenLogprobs& token) {
  const auto entry = [&](TokenId id, double log_p) {
    const std::string bytes = tokenizer.bytes_of(id);
    Json list = Json::array();
    for (const char byte : bytes) list.push_back(static_cast<unsigned char>(byte));
    return Json{{"token", replace_ill_formed(bytes)},
                {"logprob", finite_log_p(log_p)},
                {"bytes", std::move(list)}};
  };
  Json json = entry(token.token, token.log_p);
  Json& top = json["top_logprobs"] = Json::array();
  for (const auto& [id, log_p] : token.top) top.push_back(entry(id, log_p));
  return json;
}

std::string new_id(std::string_view prefix) {
  std::random_device device;
  return fmt::format("{}{:08x}{:08x}{:08x}", prefix, device(), device(), device());
}

AnswerHead make_head(std::string_view id_prefix, const ServedModel& model, AnswerFields fields) {
  using Clock = std::chrono::system_clock;
  AnswerHead head;
  head.id = new_id(id_prefix);
  head.created = static_cast<long>(Clock::to_time_t(Clock::now()));
  head.model = &model;
  head.drafter = fields.method.drafter.empty() || fields.method.drafter == "auto"
                     ? model.host->drafter()
                     : fields.method.drafter;
  head.fields = std::move(fields);
  return head;
}

AnswerReader::Parts ChoiceReaders::read(const ChoiceNews& news) {
  std::unique_ptr<AnswerReader>& reader = readers_[news.choice];
  if (!reader) reader = make_reader(style_);
  AnswerReader::Parts parts;
  reader->read(news.text, parts);
  if (news.finish != FinishReason::none) reader->finish(parts);
  return parts;
}

AnswerReader::Parts ChoiceReaders::parts(const ChoiceResult& choice) const {
  const auto reader = make_reader(style_);
  AnswerReader::Parts parts;
  reader->read(choice.text, parts);
  reader->finish(parts);
  return parts;
}

std::string event(const Json& json) { return "data: " + to_text(json) + "\n\n"; }

std::string AnswerFormat::failure(const ApiError& error) {
  return event(error_json(error)) + "data: [DONE]\n\n";
}

}  // namespace talon
