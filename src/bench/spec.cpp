#include "bench/spec.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "core/error.h"

namespace talon {
namespace {

/// Sums of one method's answers: to one question, or to all.
struct Tally {
  int decoded_tokens = 0;  // after the prefill's
  int new_tokens = 0;
  int rounds = 0;
  int accepted = 0;
  double prefill_ms = 0, decode_ms = 0, draft_ms = 0, check_ms = 0;
  bool equal = true;
  double worst = 1;  // least speed over `none` of any question
  bool any = false;

  double tok_s() const { return decode_ms > 0 ? decoded_tokens / decode_ms * 1000 : 0; }
  double tau() const { return rounds > 0 ? 1.0 + static_cast<double>(accepted) / rounds : 1; }

  void add(const Decoded& answer) {
    const SequenceStatistics& statistics = answer.statistics;
    new_tokens += static_cast<int>(answer.tokens.size());
    decoded_tokens += std::max(0, static_cast<int>(answer.tokens.size()) - 1);
    rounds += statistics.rounds;
    for (const int count : statistics.accepted) accepted += count;
    prefill_ms += statistics.prefill_ms;
    decode_ms += statistics.decode_ms;
    draft_ms += statistics.draft_ms;
    check_ms += statistics.check_ms;
  }
  void add(const Tally& question, double speed_over_plain) {
    new_tokens += question.new_tokens;
    decoded_tokens += question.decoded_tokens;
    rounds += question.rounds;
    accepted += question.accepted;
    decode_ms += question.decode_ms;
    equal = equal && question.equal;
    worst = any ? std::min(worst, speed_over_plain) : speed_over_plain;
    any = true;
  }
};

struct Answers {
  Tally tally;
  std::vector<std::vector<TokenId>> tokens;  // per turn
};

std::vector<TokenId> prompt_of(const SpecModel& model, const std::vector<ChatMessage>& messages) {
  std::string text;
  if (model.chat_template) {
    text = model.chat_template->render(messages);
  } else {
    for (const ChatMessage& message : messages) text += message.content + "\n";
  }
  const std::string start = model.tokenizer.start_text();
  const bool has_start = !start.empty() && text.starts_with(start);
  return model.tokenizer.encode(text,
                                {.parse_special = model.chat_template != nullptr,
                                 .add_start = model.tokenizer.wants_start_token() && !has_start});
}

/// Nothing if some turn leaves no room for an answer.
std::optional<Answers> answer_question(const SpecModel& model, const SpecSettings& settings,
                                       Decoder& decoder, const Question& question) {
  Answers answers;
  std::vector<ChatMessage> messages;
  for (const std::string& turn : question.turns) {
    messages.push_back({"user", turn});
    Request request;
    request.prompt = prompt_of(model, messages);
    request.max_new = settings.max_new;
    request.sampler = settings.sampler;
    request.seed = settings.seed;
    request.end_tokens = model.end_tokens;
    request.reuse_prefix = false;
    if (static_cast<int>(request.prompt.size()) + request.max_new > model.model.config.context)
      return {};
    const Decoded answer = decoder.decode(std::move(request));
    messages.push_back({"assistant", answer.text});
    answers.tally.add(answer);
    answers.tokens.push_back(answer.tokens);
  }
  return answers;
}

Json line_of(const Question& question, const std::string& method, const Tally& tally) {
  return {{"question_id", question.id},
          {"category", question.category},
          {"method", method},
          {"new_tokens", tally.new_tokens},
          {"tok_s", tally.tok_s()},
          {"tau", tally.tau()},
          {"equal", tally.equal},
          {"rounds", tally.rounds},
          {"prefill_ms", tally.prefill_ms},
          {"decode_ms", tally.decode_ms},
          {"draft_ms", tally.draft_ms},
          {"check_ms", tally.check_ms}};
}

/// The answers of each method to one question, or nothing if it does not fit. `turn` says which
/// method goes first.
std::optional<std::vector<Answers>> answer_with_all(const SpecModel& model,
                                                    const SpecSettings& settings,
                                                    std::vector<Decoder>& decoders,
                                                    const Question& question, std::size_t turn) {
  std::vector<Answers> all(decoders.size());
  for (std::size_t i = 0; i < decoders.size(); ++i) {
    const std::size_t method = (i + turn) % decoders.size();
    auto answers = answer_question(model, settings, decoders[method], question);
    if (!answers) return {};
    all[method] = std::move(*answers);
  }
  for (Answers& answers : all) answers.tally.equal = answers.tokens == all.front().tokens;
  return all;
}

Json summary_of(const SpecSettings& settings, const std::vector<Tally>& totals) {
  Json summary = Json::object();
  for (std::size_t method = 0; method < totals.size(); ++method) {
    const Tally& total = totals[method];
    const double plain = totals.front().tok_s();
    summary[settings.methods[method]] = {{"tok_s", total.tok_s()},
                                         {"speedup", plain > 0 ? total.tok_s() / plain : 1},
                                         {"tau", total.tau()},
                                         {"equal", total.equal},
                                         {"worst", total.worst}};
  }
  return summary;
}

}  // namespace

Json run_spec_bench(const SpecModel& model, const std::vector<Question>& questions,
                    const SpecSettings& settings, const std::function<void(const Json&)>& line,
                    const std::function<void(const Question&, const std::string&)>& skipped) {
  expects(!settings.methods.empty() && settings.methods.front() == "none",
          "plain decoding as the first method");
  std::vector<Decoder> decoders;
  for (const std::string& method : settings.methods) {
    DecodeSettings decode = settings.decode;
    decode.drafter = method;
    decoders.emplace_back(model.model, model.cache, &model.tokenizer, decode);
  }
  std::vector<Tally> totals(decoders.size());
  for (std::size_t q = 0; q < questions.size(); ++q) {
    const auto answers = answer_with_all(model, settings, decoders, questions[q], q);
    if (!answers) {
      skipped(questions[q], fmt::format("prompt and answer exceed the context of {} tokens",
                                        model.model.config.context));
      continue;
    }
    const double plain = answers->front().tally.tok_s();
    for (std::size_t method = 0; method < totals.size(); ++method) {
      const Tally& tally = (*answers)[method].tally;
      totals[method].add(tally, plain > 0 && tally.tok_s() > 0 ? tally.tok_s() / plain : 1);
      line(line_of(questions[q], settings.methods[method], tally));
    }
  }
  return summary_of(settings, totals);
}

}  // namespace talon
